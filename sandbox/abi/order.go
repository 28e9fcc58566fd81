package abi

// LoadOrder asks a worker to make an image of a source. The image gets the number
// Image, chosen by the engine's process.
type LoadOrder struct {
	Image  uint32
	Source string
}

// AppendLoadOrder adds the encoded form of an order to b.
func AppendLoadOrder(b []byte, o LoadOrder) []byte {
	return appendString(appendInt(b, int(o.Image)), o.Source)
}

// DecodeLoadOrder reads what AppendLoadOrder wrote.
func DecodeLoadOrder(b []byte) (LoadOrder, error) {
	d := decoder{b: b}
	o := LoadOrder{Image: uint32(d.int()), Source: d.string()}
	return o, d.end()
}

// LoadResult says what came of a LoadOrder: loaded when all fields are zero, a refusal
// of the source, a limit that its initialisation ran into, or a fault of the worker.
type LoadResult struct {
	Refusal Refusal
	Limit   Limit
	Fault   string
}

// AppendLoadResult adds the encoded form of a result to b.
func AppendLoadResult(b []byte, r LoadResult) []byte {
	b = AppendRefusal(b, r.Refusal)
	return appendString(appendLimit(b, r.Limit), r.Fault)
}

// DecodeLoadResult reads what AppendLoadResult wrote.
func DecodeLoadResult(b []byte) (LoadResult, error) {
	d := decoder{b: b}
	r := LoadResult{Refusal: Refusal{Line: d.int(), Column: d.int(), Rule: d.string(), Reason: d.string(), Hint: d.string()}}
	r.Limit = d.limit()
	r.Fault = d.string()
	return r, d.end()
}

// RunOrder asks a worker for one run of an image in a fresh sandbox.
type RunOrder struct {
	Image uint32
	Start []byte // an encoded Start, for the guest
}

// AppendRunOrder adds the encoded form of an order to b.
func AppendRunOrder(b []byte, o RunOrder) []byte {
	return append(appendInt(b, int(o.Image)), o.Start...)
}

// DecodeRunOrder reads what AppendRunOrder wrote. Start shares b.
func DecodeRunOrder(b []byte) (RunOrder, error) {
	d := decoder{b: b}
	o := RunOrder{Image: uint32(d.int())}
	o.Start = d.b
	return o, d.err
}

// Limit is a limit that was passed; Kind is the engine's name for it, empty = none.
// Value and Limit are bytes, nanoseconds or counts, by kind.
type Limit struct {
	Kind         string
	Value, Limit int
}

func appendLimit(b []byte, l Limit) []byte {
	return appendInt(appendInt(appendString(b, l.Kind), l.Value), l.Limit)
}

func (d *decoder) limit() Limit {
	return Limit{Kind: d.string(), Value: d.int(), Limit: d.int()}
}

// Lacking is a set of what a kernel may lack: a worker does without it even where it is there,
// so that tests see what becomes of the sandbox on such a machine.
type Lacking int

// What a kernel may lack.
const (
	NoMemfd Lacking = 1 << iota
	NoPagemap
	NoPagemapScan
	NoSeccomp
	NoLandlock
)

// Setup is what a worker must know before it can work.
type Setup struct {
	CacheDir  string
	Compiles  bool // sources of LoadOrders are wasm modules of compiled candidates
	Copying   bool // as if the kernel had neither memfd nor pagemap
	Without   Lacking
	MaxMemory int // bytes of a guest's memory
	MaxTime   int // nanoseconds in guest code, per run or load
	MaxCalls  int // host calls per run
	MaxOutput int // bytes of requests per run
}

// AppendSetup adds the encoded form of a setup to b.
func AppendSetup(b []byte, s Setup) []byte {
	b = appendInt(appendInt(appendString(b, s.CacheDir), bit(s.Compiles)), bit(s.Copying))
	for _, v := range []int{int(s.Without), s.MaxMemory, s.MaxTime, s.MaxCalls, s.MaxOutput} {
		b = appendInt(b, v)
	}
	return b
}

// DecodeSetup reads what AppendSetup wrote.
func DecodeSetup(b []byte) (Setup, error) {
	d := decoder{b: b}
	s := Setup{CacheDir: d.string(), Compiles: d.int() != 0, Copying: d.int() != 0, Without: Lacking(d.int())}
	for _, v := range []*int{&s.MaxMemory, &s.MaxTime, &s.MaxCalls, &s.MaxOutput} {
		*v = d.int()
	}
	return s, d.end()
}

// RunResult says how a run ended and what it cost. Fault, if any, is the worker's own;
// then Limit counts, then End.
type RunResult struct {
	End         End
	Limit       Limit
	Fault       string
	Nanoseconds int // in guest code
	Fork        int // nanoseconds to make the instance fresh, before and after
	Pages       int // memory pages dirtied
}

// AppendRunResult adds the encoded form of a result to b.
func AppendRunResult(b []byte, r RunResult) []byte {
	b = AppendEnd(b, r.End)
	b = appendString(appendLimit(b, r.Limit), r.Fault)
	return appendInt(appendInt(appendInt(b, r.Nanoseconds), r.Fork), r.Pages)
}

// DecodeRunResult reads what AppendRunResult wrote.
func DecodeRunResult(b []byte) (RunResult, error) {
	d := decoder{b: b}
	r := RunResult{End: End{Status: Status(d.byte()), Text: d.string()}}
	r.Limit = d.limit()
	r.Fault = d.string()
	r.Nanoseconds, r.Fork, r.Pages = d.int(), d.int(), d.int()
	return r, d.end()
}

// Report is what a worker says about itself when it is ready.
type Report struct {
	Confinement []string // what holds the process, e.g. "no_new_privs"
	Fallbacks   []string // what is missing here and does without
	Fault       string   // why no guest can run; empty = ready
	Pages       int      // size of the guest's memory after start, in pages of 4 KiB
}

// AppendReport adds the encoded form of a report to b.
func AppendReport(b []byte, r Report) []byte {
	for _, list := range [][]string{r.Confinement, r.Fallbacks} {
		b = appendCount(b, len(list))
		for _, s := range list {
			b = appendString(b, s)
		}
	}
	return appendInt(appendString(b, r.Fault), r.Pages)
}

// DecodeReport reads what AppendReport wrote.
func DecodeReport(b []byte) (Report, error) {
	d := decoder{b: b}
	var r Report
	for _, list := range []*[]string{&r.Confinement, &r.Fallbacks} {
		for n := d.count(1); n > 0; n-- {
			*list = append(*list, d.string())
		}
	}
	r.Fault, r.Pages = d.string(), d.int()
	return r, d.end()
}

func bit(v bool) int {
	if v {
		return 1
	}
	return 0
}
