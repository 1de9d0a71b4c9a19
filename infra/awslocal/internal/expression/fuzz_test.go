package expression

import "testing"

// FuzzParse checks that no text makes a parser or an evaluation panic, and that a condition reads only its Paths.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"n = :n AND NOT (s <> :s OR attribute_exists(l[1].k))",
		"n BETWEEN :n AND :m", "n IN (:n, :m, size(l))", "begins_with(s, :s)", "contains(ss, :s)", "attribute_type(n, :type)",
		"SET n = if_not_exists(n, :n) + :m, k = list_append(l, :l) REMOVE m.k, l[0] ADD x :n DELETE ss :ss", "SET l[0] = :n, l[1].k = :m", "REMOVE l[0], l[1].k",
		"a, b.c[2].#n, #dotted", "id = :n AND begins_with(k, :s)", "((", "\xff", "n[99999999999999999999] = :n",
	} {
		f.Add(seed)
	}
	stored := item(`{"n": {"N": "1"}, "s": {"S": "s"}, "l": {"L": [{"N": "1"}, {"M": {"k": {"S": "x"}}}]}, "m": {"M": {"k": {"N": "1"}}}, "ss": {"SS": ["a"]}, "ns": {"NS": ["1"]}}`)
	f.Fuzz(func(t *testing.T, source string) {
		if condition, err := ParseCondition(source, placeholders(t)); err == nil {
			condition.Matches(stored)
			condition.Matches(nil)
		}
		if update, err := ParseUpdate(source, placeholders(t)); err == nil {
			before, _ := stored.MarshalJSON()
			changed, err := update.Apply(stored)
			if err == nil {
				if _, err := changed.MarshalJSON(); err != nil {
					t.Error(err)
				}
			}
			if after, _ := stored.MarshalJSON(); string(before) != string(after) {
				t.Errorf("the update changed the old item: %s became %s", before, after)
			}
		}
		if projection, err := ParseProjection(source, placeholders(t)); err == nil {
			projection.Apply(stored)
		}
		if terms, err := ParseKeyCondition(source, placeholders(t)); err == nil {
			for _, term := range terms {
				term.Matches(stored.Get("n"))
			}
		}
	})
}
