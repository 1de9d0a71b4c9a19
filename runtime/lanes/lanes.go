// Package lanes assigns instances to lanes. A lane is a FIFO queue with its own consumer: see docs/lanes.md.
package lanes

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/settle-run/settle/runtime/instances"
)

// Rules assign instances to lanes. The zero value assigns each instance to instances.MainLane.
type Rules struct{ rules []rule }

// rule assigns the instances of a machine, or only the instances whose IDs have a prefix.
type rule struct {
	machine, prefix string
	lanes           []weighted
	// spread is the number of lanes that the instances of one tenant share.
	spread int
}

// weighted is a lane with its share of the instances, relative to the other lanes of the rule.
type weighted struct {
	lane   string
	weight float64
}

// weightMax limits the weight of a lane.
const weightMax = 1000

// ParseRules parses rules such as "signup=bulk,job/vip.*=priority,job=a:2|b|c/2", separated by commas. A rule names a
// machine, or a machine and a prefix of the ID that ends in "*". It lists one or more lanes, separated by "|", each
// with an optional weight. The tenant is the ID up to the first dot. With several lanes, a hash of the tenant selects
// one. "/2" at the end gives each tenant two of the lanes, and a hash of the ID selects one of the two. `known` holds
// the names of all lanes besides the main lane.
func ParseRules(text string, known []string) (Rules, error) {
	var rules Rules
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		parsed, err := parseRule(entry, known)
		if err != nil {
			return Rules{}, err
		}
		if slices.ContainsFunc(rules.rules, func(r rule) bool { return r.machine == parsed.machine && r.prefix == parsed.prefix }) {
			return Rules{}, fmt.Errorf("expected one rule for each pattern, got a second one: %q", entry)
		}
		rules.rules = append(rules.rules, parsed)
	}
	// The longest prefix that matches decides.
	slices.SortStableFunc(rules.rules, func(a, b rule) int { return len(b.prefix) - len(a.prefix) })
	return rules, nil
}

func parseRule(entry string, known []string) (rule, error) {
	pattern, target, ok := strings.Cut(entry, "=")
	r := rule{spread: 1}
	var prefix string
	var hasPrefix bool
	r.machine, prefix, hasPrefix = strings.Cut(pattern, "/")
	r.prefix = strings.TrimSuffix(prefix, "*")
	if !ok || r.machine == "" || hasPrefix && (r.prefix == prefix || r.prefix == "") {
		return rule{}, fmt.Errorf("expected a rule such as signup=bulk, job/vip.*=priority or job=a:2|b, got %q", entry)
	}
	if names, spread, ok := strings.Cut(target, "/"); ok {
		n, err := strconv.Atoi(spread)
		if target = names; err != nil || n < 1 || n > strings.Count(names, "|")+1 {
			return rule{}, fmt.Errorf("expected after the slash the number of lanes of a tenant, from 1 to the number of lanes, got %q in %q", spread, entry)
		}
		r.spread = n
	}
	for name := range strings.SplitSeq(target, "|") {
		lane, weight, hasWeight := strings.Cut(name, ":")
		w := weighted{lane, 1}
		if hasWeight {
			n, err := strconv.Atoi(weight)
			if err != nil || n < 1 || n > weightMax {
				return rule{}, fmt.Errorf("expected a weight from 1 to %d, got %q in %q", weightMax, weight, entry)
			}
			w.weight = float64(n)
		}
		if lane != instances.MainLane && !slices.Contains(known, lane) {
			return rule{}, fmt.Errorf("expected one of the lanes %s, got %q in %q", strings.Join(append([]string{instances.MainLane}, known...), ", "), lane, entry)
		}
		if slices.ContainsFunc(r.lanes, func(other weighted) bool { return other.lane == lane }) {
			return rule{}, fmt.Errorf("expected each lane once, got %q twice in %q", lane, entry)
		}
		r.lanes = append(r.lanes, w)
	}
	return r, nil
}

// Lane returns the lane to which senders send the events of a new instance. An instance keeps the lane of its first
// event, even if the rules change later.
func (r Rules) Lane(id instances.ID) string {
	i := slices.IndexFunc(r.rules, func(r rule) bool { return r.machine == id.Machine && strings.HasPrefix(id.ID, r.prefix) })
	if i < 0 {
		return instances.MainLane
	}
	of := r.rules[i]
	tenant, _, _ := strings.Cut(id.ID, ".")
	chosen := ranked(of.lanes, of.machine+"/"+tenant)[:of.spread]
	if len(chosen) == 1 {
		return chosen[0].lane
	}
	return ranked(chosen, id.String())[0].lane
}

// ranked returns the lanes in the order of their scores for a key, by weighted rendezvous hashing (Schindelhauer and
// Schomaker, "Weighted Distributed Hash Tables", SPAA 2005, the logarithmic method). A lane's share is proportional to its
// weight. A new lane takes keys from the others but moves none between them.
func ranked(lanes []weighted, key string) []weighted {
	if len(lanes) == 1 {
		return lanes
	}
	score := func(w weighted) float64 {
		sum := sha256.Sum256([]byte(w.lane + "\n" + key))
		unit := (float64(binary.BigEndian.Uint64(sum[:])>>11) + 0.5) / (1 << 53) // between 0 and 1, both excluded
		return -math.Log(unit) / w.weight
	}
	scores := map[string]float64{}
	for _, w := range lanes {
		scores[w.lane] = score(w)
	}
	return slices.SortedStableFunc(slices.Values(lanes), func(a, b weighted) int {
		switch {
		case scores[a.lane] < scores[b.lane]:
			return -1
		case scores[a.lane] > scores[b.lane]:
			return 1
		}
		return strings.Compare(a.lane, b.lane)
	})
}
