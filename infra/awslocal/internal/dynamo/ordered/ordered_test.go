package ordered

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestMap_behaves_like_a_sorted_map performs random operations on a Map and on a Go map.
func TestMap_behaves_like_a_sorted_map(t *testing.T) {
	t.Parallel()
	keys := rapid.StringMatching("(same start|\x00)?[a-d\x00]{0,3}")
	rapid.Check(t, func(t *rapid.T) {
		var m Map[int]
		model := map[string]int{}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				key, value := keys.Draw(t, "key"), rapid.Int().Draw(t, "value")
				m.Set(key, value)
				model[key] = value
			},
			"delete": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				m.Delete(key)
				delete(model, key)
			},
			"": func(t *rapid.T) {
				bound := keys.Draw(t, "bound")
				var from, before []string
				for _, key := range slices.Sorted(maps.Keys(model)) {
					if key >= bound {
						from = append(from, key)
					} else {
						before = append([]string{key}, before...)
					}
				}
				check(t, "from "+bound, from, m.From(bound), model)
				check(t, "before "+bound, before, m.Before(bound), model)
				value, found := m.Get(bound)
				if want, exists := model[bound]; value != want || found != exists || m.Len() != len(model) {
					t.Fatalf("get %s of %d: want %d %v of %d, got %d %v", bound, m.Len(), want, exists, len(model), value, found)
				}
			},
		})
	})
}

func check(t *rapid.T, what string, want []string, walk func(func(string, int) bool), model map[string]int) {
	var got []string
	for key, value := range walk {
		got = append(got, key)
		if value != model[key] {
			t.Fatalf("%s: %s: want %d, got %d", what, key, model[key], value)
		}
	}
	if !slices.Equal(want, got) {
		t.Fatalf("%s: want %q, got %q", what, want, got)
	}
}

// TestMap_spreads_heights checks that the list does not degenerate for similar keys.
func TestMap_spreads_heights(t *testing.T) {
	t.Parallel()
	const keys = 1 << 16
	atLeast := [levelsMax + 1]int{}
	for i := range keys {
		for level := range heightOf(fmt.Sprintf("key-%d", i)) {
			atLeast[level]++
		}
	}
	for level, want := 0, keys; want >= 256; level, want = level+1, want/4 {
		if got := atLeast[level]; got < want*3/4 || got > want*5/4 {
			t.Errorf("nodes on level %d: want about %d, got %d", level, want, got)
		}
	}
}
