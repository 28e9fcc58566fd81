package answer

import (
	"math/big"
	"strings"
)

// unit is a measure: what it measures and how large it is. An unknown unit has no
// dimension: it is a noun that says what was counted, and is not compared.
type unit struct {
	dimension string
	size      *big.Rat
}

// unitTable: dimension, then names with their size.
var unitTable = []struct {
	dimension string
	units     string // name=size|name=size
}{
	{"length", "mm=1/1000 millimeter=1/1000 millimetre=1/1000 cm=1/100 centimeter=1/100 centimetre=1/100 dm=1/10 m=1 meter=1 metre=1 km=1000 kilometer=1000 kilometre=1000 " +
		"inch=127/5000 inche=127/5000 in=127/5000 foot=381/1250 feet=381/1250 ft=381/1250 yard=1143/1250 yd=1143/1250 mile=201168/125 mi=201168/125"},
	{"mass", "mg=1/1000000 milligram=1/1000000 g=1/1000 gram=1/1000 kg=1 kilogram=1 ton=1000 tonne=1000 ounce=45359237/1600000000 oz=45359237/1600000000 pound=45359237/100000000 lb=45359237/100000000"},
	{"time", "second=1 sec=1 s=1 minute=60 min=60 hour=3600 hr=3600 h=3600 day=86400 week=604800"},
	{"long time", "month=1 year=12 yr=12 decade=120"},
	{"money", "dollar=1 usd=1 $=1 cent=1/100 ¢=1/100"},
	{"pounds sterling", "£=1 gbp=1"},
	{"euro", "€=1 euro=1 eur=1"},
	{"volume", "ml=1/1000 milliliter=1/1000 millilitre=1/1000 cl=1/100 l=1 liter=1 litre=1 gallon=473176473/125000000 quart=473176473/500000000 pint=473176473/1000000000"},
	{"speed", "mph=1"},
	{"metric speed", "km/h=1 kph=1 kmh=1 kmph=1"},
	{"morning", "am=1 a.m=1"},
	{"afternoon", "pm=1 p.m=1"},
	{"percent", "percent=1/100 %=1/100"},
	{"angle", "degree=1 deg=1"},
	{"celsius", "°c=1"},
	{"fahrenheit", "°f=1"},
}

var unitNames = func() map[string]unit {
	names := map[string]unit{}
	for _, row := range unitTable {
		for _, pair := range strings.Fields(row.units) {
			name, size, _ := strings.Cut(pair, "=")
			r, ok := new(big.Rat).SetString(size)
			if !ok {
				panic("BUG: unit " + pair)
			}
			names[name] = unit{row.dimension, r}
		}
	}
	return names
}()

// multipliers are words that belong to the number.
var multipliers = map[string]int64{"hundred": 100, "thousand": 1000, "million": 1e6, "billion": 1e9, "trillion": 1e12, "dozen": 12}

// knownUnit tells whether a word is a unit by itself.
func knownUnit(word string) bool {
	_, ok := unitNames[singular(strings.ToLower(word))]
	return ok
}

// singular drops the s of a plural, if the rest is a unit or long enough to be a noun.
func singular(word string) string {
	word = strings.TrimSuffix(word, ".")
	if _, ok := unitNames[word]; ok || len(word) < 2 {
		return word
	}
	return strings.TrimSuffix(word, "s")
}

// unitOf reads the words behind a number: `square feet`, `cm^2`, `km per hour`.
func unitOf(text string) unit {
	words := strings.Fields(strings.ToLower(text))
	power := ""
	var kept []string
	for _, word := range words {
		word = strings.Trim(word, ",;()")
		switch {
		case word == "square" || word == "sq" || word == "sq." || word == "squared":
			power = "2"
		case word == "cubic" || word == "cu" || word == "cubed":
			power = "3"
		case word != "":
			kept = append(kept, word)
		}
	}
	if len(kept) != 1 {
		return unit{}
	}
	name, exponent, _ := strings.Cut(kept[0], "^")
	if exponent != "" {
		power = exponent
	}
	found, ok := unitNames[singular(name)]
	if !ok {
		return unit{}
	}
	size := found.size
	switch power {
	case "":
		return found
	case "2":
		size = new(big.Rat).Mul(size, size)
	case "3":
		size = new(big.Rat).Mul(size, new(big.Rat).Mul(size, size))
	default:
		return unit{}
	}
	dimension := found.dimension + "^" + power
	if dimension == "length^3" { // litres
		dimension, size = "volume", new(big.Rat).Mul(size, big.NewRat(1000, 1))
	}
	return unit{dimension, size}
}
