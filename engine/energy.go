package engine

// EnergyMeter counts what the machine takes.
type EnergyMeter interface {
	// Energy is what was taken since the meter started; it only grows. It answers at once.
	Energy() Energy
}

// Energy is what the parts of the machine took, all processes together.
type Energy struct {
	Package Joules `json:"package,omitzero"` // processors
	Card    Joules `json:"card,omitzero"`    // accelerators
}

// Joules are an amount of energy and the seconds that readings cover: 0 seconds = it could
// not be read.
type Joules struct {
	Joules  float64 `json:"joules"`
	Seconds float64 `json:"seconds"`
}

// Add returns the sum of two amounts.
func (j Joules) Add(o Joules) Joules { return Joules{j.Joules + o.Joules, j.Seconds + o.Seconds} }

// Add returns the sum of two energies.
func (e Energy) Add(o Energy) Energy { return Energy{e.Package.Add(o.Package), e.Card.Add(o.Card)} }

// Minus returns what was taken since an earlier reading.
func (e Energy) Minus(earlier Energy) Energy {
	return Energy{e.Package.Add(earlier.Package.negative()), e.Card.Add(earlier.Card.negative())}
}

func (j Joules) negative() Joules { return Joules{-j.Joules, -j.Seconds} }

// Total is the joules of all parts that could be read; nil when none could.
func (e Energy) Total() *float64 {
	if e.Package.Seconds <= 0 && e.Card.Seconds <= 0 {
		return nil
	}
	sum := e.Package.Joules + e.Card.Joules
	return &sum
}
