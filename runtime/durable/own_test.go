package durable_test

import (
	"testing"
	"testing/synctest"
)

func TestAnEventOfTheLoopWithABooleanForATextIsParkedInWordsOfJSON(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("wait", ""), `{"type": "settle.token", "token": true}`)
		w.invoke()
		w.wantParked(t, [2]string{"settle.token", `expected a string under "token", got a boolean`})
	})
}
