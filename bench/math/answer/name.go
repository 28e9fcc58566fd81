package answer

import "strings"

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, word := range strings.Fields(words) {
		m[word] = true
	}
	return m
}

// skipped commands change only how it looks.
var skipped = set(`left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr middle quad qquad displaystyle
	textstyle limits nolimits rm bf it sf tt boldsymbol mathstrut thinspace negthinspace space hfill nonumber large Large LARGE
	small huge normalsize underline boxed fbox`)

// fonts take an argument.
var fonts = set(`text textbf textit textrm textsf texttt textnormal mbox mathrm mathbf mathit mathsf mathtt mathcal
	mathbb operatorname emph hbox`)

// accents make a letter of their argument.
var accents = set(`overline bar vec hat tilde widehat overrightarrow angle`)

var greek = set(`alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho
	sigma tau upsilon phi varphi chi psi omega ell`)

// symbolNames are constants and letters written as words.
var symbolNames = map[string]string{"pi": "pi", "Pi": "pi", "theta": "theta", "alpha": "alpha", "beta": "beta", "imath": "i"}

var functionNames = set(`sin cos tan cot sec csc arcsin arccos arctan asin acos atan sinh cosh tanh ln log lg exp
	sqrt cbrt abs floor ceil binom factorial frac`)

var fractions = map[string]string{"frac": "frac", "dfrac": "frac", "tfrac": "frac", "cfrac": "frac",
	"binom": "binom", "dbinom": "binom", "tbinom": "binom"}

// signs are commands that stand for an operator.
var signs = map[string]string{"cdot": "*", "times": "*", "ast": "*", "div": "/", "pm": "±", "mp": "∓",
	"le": "≤", "leq": "≤", "leqslant": "≤", "ge": "≥", "geq": "≥", "geqslant": "≥", "lt": "<", "gt": ">",
	"ne": "≠", "neq": "≠", "in": "∈", "cup": "∪", "infty": "∞", "circ": "°", "degree": "°", "emptyset": "∅", "varnothing": "∅",
	"lbrace": `\{`, "rbrace": `\}`, "lvert": "|", "rvert": "|", "vert": "|", "langle": "(", "rangle": ")",
	"lbrack": "[", "rbrack": "]", "lparen": "(", "rparen": ")",
	"lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉", "colon": ":", "lor": "and", "vee": "and", "land": "and", "wedge": "and",
	"pounds": "£", "euro": "€"}

var unicodeSigns = map[rune]string{'−': "-", '–': "-", '—': "-", '×': "*", '·': "*", '⋅': "*", '∗': "*", '÷': "/", '∕': "/",
	'⁄': "/", '±': "±", '∓': "∓", '≤': "≤", '≥': "≥", '⩽': "≤", '⩾': "≥", '≠': "≠", '∈': "∈", '∪': "∪", '∞': "∞", '°': "°", 'º': "°", '∅': "∅",
	'⌊': "⌊", '⌋': "⌋", '⌈': "⌈", '⌉': "⌉", '£': "£", '€': "€", '¢': "¢", '，': ",", '：': ":", '（': "(", '）': ")", '％': "%", '∶': ":"}

var unicodeHalves = map[rune]string{'½': "1/2", '⅓': "1/3", '⅔': "2/3", '¼': "1/4", '¾': "3/4", '⅕': "1/5", '⅖': "2/5", '⅗': "3/5",
	'⅘': "4/5", '⅙': "1/6", '⅚': "5/6", '⅛': "1/8", '⅜': "3/8", '⅝': "5/8", '⅞': "7/8"}

var unicodePowers = map[rune]byte{'⁰': '0', '¹': '1', '²': '2', '³': '3', '⁴': '4', '⁵': '5', '⁶': '6', '⁷': '7', '⁸': '8', '⁹': '9'}
