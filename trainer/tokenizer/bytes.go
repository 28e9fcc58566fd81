package tokenizer

import "fmt"

// byteRunes spells each byte as one printable rune: bytes 33-126, 161-172 and
// 174-255 stand for themselves, the other 68 become U+0100 and up, in order.
// runeBytes is the way back.
var byteRunes, runeBytes = func() ([256]rune, map[rune]byte) {
	var spell [256]rune
	back := map[rune]byte{}
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if !(b >= 33 && b <= 126 || b >= 161 && b <= 172 || b >= 174) {
			r = next
			next++
		}
		spell[b] = r
		back[r] = byte(b)
	}
	return spell, back
}()

// unspell returns the raw bytes that a vocab entry spells.
func unspell(token string) (string, error) {
	b := make([]byte, 0, len(token))
	for _, r := range token {
		c, ok := runeBytes[r]
		if !ok {
			return "", fmt.Errorf("token %q: rune %q spells no byte: %w", token, r, ErrFormat)
		}
		b = append(b, c)
	}
	return string(b), nil
}
