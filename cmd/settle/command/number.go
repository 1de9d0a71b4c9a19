package command

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/alecthomas/kong"
)

// numbers returns mappers for numbers and durations. kong's mappers take -1 for a flag, and suggest a syntax that fails
// too.
func numbers() []kong.Option {
	return []kong.Option{
		kong.KindMapper(reflect.Int, numeric("a whole number, such as 100", func(text string, target reflect.Value) error {
			n, err := strconv.ParseInt(text, 0, strconv.IntSize)
			target.SetInt(n)
			return err
		})),
		kong.KindMapper(reflect.Int64, numeric("a whole number, such as 1795165200000000", func(text string, target reflect.Value) error {
			n, err := strconv.ParseInt(text, 10, 64)
			target.SetInt(n)
			return err
		})),
		kong.KindMapper(reflect.Uint16, numeric(fmt.Sprintf("a whole number from 0 to %d", math.MaxUint16), func(text string, target reflect.Value) error {
			n, err := strconv.ParseUint(text, 0, 16)
			target.SetUint(n)
			return err
		})),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), numeric("a duration, such as 30s, 5m or 1h30m", func(text string, target reflect.Value) error {
			d, err := time.ParseDuration(text)
			target.SetInt(int64(d))
			return err
		})),
	}
}

// numeric returns a mapper that parses a value with set. Its errors name the expected form.
func numeric(expected string, set func(text string, target reflect.Value) error) kong.MapperFunc {
	return func(ctx *kong.DecodeContext, target reflect.Value) error {
		token := ctx.Scan.Pop()
		if token.IsEOL() {
			return fmt.Errorf("expected %s, got nothing", expected)
		}
		if err := set(token.String(), target); err != nil {
			return fmt.Errorf("expected %s, got %q", expected, token)
		}
		return nil
	}
}
