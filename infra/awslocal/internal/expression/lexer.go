package expression

import (
	"fmt"
	"strings"
)

// kind classifies a token.
type kind int

const (
	endOfText kind = iota
	identifier
	nameRef  // #name
	valueRef // :value
	number   // a list index
	symbol   // an operator or a bracket
	illegal  // a character that no expression may contain
)

// token is a word of an expression, source[begin:end].
type token struct {
	kind       kind
	text       string
	begin, end int
}

// tokenize splits an expression into tokens. The last token is always endOfText. Invalid text becomes an illegal
// token, which the parser rejects.
func tokenize(source string) []token {
	tokens := make([]token, 0, 16)
	for at := 0; ; {
		for at < len(source) && isSpace(source[at]) {
			at++
		}
		if at == len(source) {
			return append(tokens, token{kind: endOfText, text: "<EOF>", begin: at, end: at})
		}
		kind, length := scan(source[at:])
		tokens = append(tokens, token{kind: kind, text: source[at : at+length], begin: at, end: at + length})
		at += length
	}
}

// scan returns the kind and length of the token at the beginning of text.
func scan(text string) (kind, int) {
	switch c := text[0]; {
	case isLetter(c):
		return identifier, wordLength(text, 1)
	case c == '#' && wordLength(text, 1) > 1:
		return nameRef, wordLength(text, 1)
	case c == ':' && wordLength(text, 1) > 1:
		return valueRef, wordLength(text, 1)
	case isDigit(c):
		length := 1
		for length < len(text) && isDigit(text[length]) {
			length++
		}
		return number, length
	case strings.HasPrefix(text, "<>"), strings.HasPrefix(text, "<="), strings.HasPrefix(text, ">="):
		return symbol, 2
	case strings.IndexByte("()[],.=<>+-", c) >= 0:
		return symbol, 1
	}
	for i := range text {
		if i > 0 {
			return illegal, i // The token is a whole character, not one byte of it.
		}
	}
	return illegal, len(text)
}

// wordLength returns the end of the run of letters, digits and underscores that starts at `begin`.
func wordLength(text string, begin int) int {
	for begin < len(text) && (isLetter(text[begin]) || isDigit(text[begin]) || text[begin] == '_') {
		begin++
	}
	return begin
}

func isSpace(c byte) bool  { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// syntaxError reports the token at an index with its neighbours, in DynamoDB's form.
func syntaxError(source string, tokens []token, at int) error {
	begin, end := tokens[max(at-1, 0)].begin, tokens[min(at+1, len(tokens)-1)].end
	return fmt.Errorf("Syntax error; token: %q, near: %q", tokens[at].text, strings.TrimSpace(source[begin:end]))
}
