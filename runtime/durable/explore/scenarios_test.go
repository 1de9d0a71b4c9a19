package explore_test

import (
	"slices"
	"time"
)

// scenarios returns all scenarios.
func scenarios() []*scenario {
	all := slices.Concat(eventScenarios(), operatorScenarios(), commandScenarios(), laneScenarios(), familyScenarios(), taskScenarios(), aliasScenarios(), executionScenarios(), copyScenarios())
	for _, s := range all {
		s.posts, s.commands = parsePosts(s.text), parseCommands(s.operators)
		if s.left.Commands == 0 {
			s.left.Commands = min(1, len(s.commands))
		}
	}
	return all
}

// eventScenarios have events, services, sends, timers, and two queues.
func eventScenarios() []*scenario {
	return []*scenario{
		{name: "plain", text: "x/a add a1; x/a add a2; x/b add b1", faults: 2},
		{name: "plain: limit 1", text: "x/a add a1; x/a add a2", limit: 1, faults: 3},
		{name: "repeat", text: "x/a add a1*; x/a add a1*", faults: 3},
		{name: "service", text: "x/a charge a1; x/b charge b1", faults: 2},
		{name: "service: limit 1", text: "x/a charge a1", limit: 1, faults: 3},
		{name: "service: then", text: "x/a charge a1; x/a add a2", faults: 2},
		{name: "two services", text: "x/a ship a1; x/a add a2", faults: 2},
		{name: "killer", text: "x/a kill a1; x/b add b1", faults: 2},
		{name: "killer and one attempt", text: "x/a kill a1; x/b hurry b1", faults: 1},
		{name: "killer and service", text: "x/a kill a1; x/b charge b1", faults: 2, isLong: true},
		{name: "send", text: "x/a tell a1 x/b; x/a tell a2 x/b", left: budget{Waits: 1}, faults: 2},
		{name: "ring", text: "x/a ring a1 x/b,x/a; x/b add b1", hops: 2, faults: 2},
		{name: "send: full", text: "x/a tell a1 x/b; x/a tell a2 x/b; x/b add b1", left: budget{Waits: 1}, faults: 2, isLong: true},
		{name: "aggregator", text: "x/a tell a1 x/s; x/b tell b1 x/s", recent: 1, faults: 2},
		{name: "timer", text: "x/a wait a1; x/a tell a2 x/b", left: budget{Waits: 1}, faults: 2},
		{name: "timer: limit 1", text: "x/a wait a1", limit: 1, faults: 3},
		{name: "service and limit", text: "x/a pay a1", faults: 2},
		{name: "all", text: "x/a charge a1; x/a tell a2 x/b; x/b wait b1", faults: 2, isLong: true},
		{name: "queues", text: "x/a add a1; x/a add a2; 2:x/a add q1; 2:x/a add q2", faults: 2},
		{name: "queues: service", text: "x/a charge a1; 2:x/a add q1", faults: 2},
		{name: "queues: send", text: "x/a tell a1 x/b; 2:x/a tell q1 x/b", faults: 2},
		{name: "queues: send between", text: "2:x/a add q1; x/a tell a1 x/b; 2:x/a add q2", faults: 2},
		{name: "queues: timer", text: "x/a wait a1; 2:x/a add q1", faults: 2},
		{name: "early", text: "x/a tell a1 x/b; x/b charge b1", early: true, faults: 2},
		{name: "early: plain", text: "x/a add a1; x/b charge b1", early: true, faults: 2},
	}
}

// operatorScenarios have actions of operators and effects of time: redrives, restores, TTL, denials, deployments.
func operatorScenarios() []*scenario {
	return []*scenario{
		{name: "redrive", text: "x/a add a1; x/a add a2", limit: 1, left: budget{Redrives: 1}, faults: 2, nested: 2},
		{name: "redrive: later", text: "x/a add a1; x/a add a2", limit: 1, left: budget{Redrives: 1, Waits: 1}, faults: 2},
		{name: "restore", text: "x/a tell a1 x/b; x/a tell a2 x/b", left: budget{Restores: 1}, faults: 2},
		{name: "restore: then", text: "x/a tell a1 x/b; x/a tell a2 x/b; x/a tell a3 x/b", left: budget{Restores: 1}, isLong: true},
		{name: "restore: timer", text: "x/a wait a1; x/a add a2", left: budget{Restores: 1}, faults: 2},
		{name: "end", text: "x/a finish a1 x/b", faults: 3},
		{name: "denied", text: "x/a tell a1 x/b; x/a tell a2 x/b", left: budget{Denials: 1}, faults: 2},
		{name: "denied end", text: "x/a finish a1 x/b", left: budget{Denials: 1}, faults: 2},
		{name: "denied: child", text: "x/a help-c a1; x/a release r1", left: budget{Denials: 1}, isLong: true},
		{name: "denied: stop", text: "x/a help-c a1; x/a cancel a2", left: budget{Denials: 1}, isLong: true},
		{name: "deploy: service", text: "x/a add a1; x/a pay a2", versions: "beside", left: budget{Olds: 1}, faults: 2},
		{name: "deploy: redrive", text: "x/a break a1", limit: 1, versions: "beside", left: budget{Redrives: 1}, faults: 2},
		{name: "deploy: timer", text: "x/a wait a1; x/a tell a2 x/b", versions: "beside", left: budget{Olds: 1}, faults: 2, isLong: true},
		{name: "migrate", text: "x/a add a1; x/a tell a2 x/b", versions: "migrated", left: budget{Olds: 1}, faults: 2},
		{name: "migrate: redrive", text: "x/a add a1; x/a renew a2", limit: 1, versions: "migrated", left: budget{Redrives: 1, Olds: 1}, faults: 2},
		{name: "migrate: service", text: "x/a pay a1; x/a add a2", versions: "migrated", left: budget{Olds: 1}, faults: 2},
		{name: "migrate: timer", text: "x/a wait a1; x/a add a2", versions: "migrated", left: budget{Olds: 1}, faults: 2},
		{name: "migrate: child", text: "x/a help-c a1; x/a add a2", versions: "migrated", left: budget{Olds: 1}, faults: 2},
	}
}

// commandScenarios have commands of operators, at any moment.
func commandScenarios() []*scenario {
	of := func(execution string) map[string]task {
		return map[string]task{"x/a|1": {name: "HandOver", execution: execution}}
	}
	beating := map[string]task{"x/a|1": {name: "HandOver", execution: "execution 1", timeout: 90 * time.Second, heartbeat: 30 * time.Second}}
	return []*scenario{
		{name: "stop: service", text: "x/a add a1; x/a charge a2", operators: "stop x/a; terminate x/a", faults: 2},
		{name: "stop: child", text: "x/a help-b a1", operators: "stop b/; terminate b/", faults: 2},
		{name: "stop: parked", text: "x/a add a1; x/a break a2", limit: 1, operators: "stop x/a", faults: 2},
		{name: "stop: parent", text: "x/a help-b a1; x/a add a2", operators: "stop x/a; terminate x/a", isLong: true},
		{name: "stop: broken child", text: "x/a help-c broken", limit: 1, operators: "stop x/a; terminate x/a", isLong: true},
		{name: "stop: child with a service", text: "x/a help-d a1", operators: "stop x/a; stop d/", isLong: true},
		{name: "stop: denied", text: "x/a help-c a1", left: budget{Denials: 1}, operators: "stop x/a; stop c/", isLong: true},
		{name: "stop: task", text: "x/a task x/a|1; x/a hand a1", tasks: of("execution 1"), operators: "stop x/a; terminate x/a", isLong: true},
		{name: "stop: unknown execution", text: "x/a task x/a|1; x/a hand a1", tasks: of(""), operators: "stop x/a", isLong: true},
		{name: "stop: heartbeats", text: "x/a task x/a|1", tasks: beating, limit: 1, operators: "stop x/a", isLong: true},
		{name: "stop: alias", text: "x/a claim a1 k; x/b claim b1 k", operators: "stop x/a; terminate x/a", isLong: true},
		{name: "stop: send", text: "x/a tell a1 x/b; x/a tell a2 x/b", operators: "stop x/a; terminate x/a", isLong: true},
		{name: "stop: timer", text: "x/a wait a1; x/a add a2", operators: "stop x/a; terminate x/a", isLong: true},
		{name: "stop: execution", text: "x/a print a1", operators: "stop x/a", isLong: true},
		{name: "stop: killer", text: "x/a add a1; x/a kill a2", operators: "stop x/a", faults: 2, isLong: true},
		{name: "stop: queues", text: "x/a add a1; x/a charge a2; 2:x/a add q1", operators: "stop x/a", faults: 2, isLong: true},
		{name: "stop: redrive", text: "x/a add a1; x/a break a2", limit: 1, left: budget{Redrives: 1}, operators: "stop x/a; move x/a idle", isLong: true},
		{name: "stop: migrate", text: "x/a add a1; x/a pay a2", versions: "migrated", left: budget{Olds: 1}, operators: "stop x/a", isLong: true},
		{name: "stop: migrate child", text: "x/a help-c a1", versions: "migrated", left: budget{Olds: 1}, operators: "stop x/a", isLong: true},
		{name: "move: service", text: "x/a add a1; x/a charge a2", operators: "move x/a idle; move x/a charging", faults: 2},
		{name: "move: timer", text: "x/a add a1; x/a wait a2", operators: "move x/a waiting; move x/a idle", isLong: true},
		{name: "move: child", text: "x/a help-c a1", operators: "move x/a idle; move x/a helped-c", isLong: true},
		{name: "move: task", text: "x/a task x/a|1", tasks: of("execution 1"), operators: "move x/a way", faults: 2, isLong: true},
		{name: "move: execution", text: "x/a add a1", operators: "move x/a printing", isLong: true},
		{name: "move: end", text: "x/a help-b a1; x/a add a2", operators: "move x/a finished", isLong: true},
		{name: "move: migrate", text: "x/a add a1; x/a pay a2", versions: "migrated", left: budget{Olds: 1}, operators: "move x/a paying", isLong: true},
		{name: "keep: service", text: "x/a add a1; x/a charge a2", limit: 1, operators: "keep x/a", faults: 2},
		{name: "keep: end", text: "x/a add a1; x/a finish a2 x/b", operators: "keep x/a", faults: 2},
		{name: "forget", text: "x/a finish a1 x/b; x/a add a2", operators: "forget x/a", faults: 2},
		{name: "forget: keep", text: "x/a add a1; x/a finish a2", left: budget{Commands: 2}, operators: "forget x/a; keep x/a; unkeep x/a", isLong: true},
		{name: "forget: child", text: "x/a help-c a1; x/a release r1", operators: "forget c/; terminate x/a", isLong: true},
		{name: "forget: parent", text: "x/a help-b a1; x/a finish a2", operators: "forget x/a; forget b/", isLong: true},
		{name: "two operators", text: "x/a wait a1", left: budget{Commands: 2}, operators: "stop x/a; move x/a idle", faults: 2, isLong: true},
	}
}

// laneScenarios have two lanes and moves between them.
func laneScenarios() []*scenario {
	return []*scenario{
		{name: "lanes", lanes: true, text: "x/a add a1; later 2:x/a add q1; later 2:x/a add q2", faults: 2},
		{name: "lanes: move", lanes: true, text: "x/a add a1; x/a add a2; later 2:x/a add q1", operators: "lane x/a second", isLong: true},
		{name: "lanes: same route", lanes: true, text: "x/a add a1; later x/a add a2; later x/a add a3", operators: "lane x/a second"},
		{name: "lanes: back", lanes: true, text: "x/a add a1; x/a add a2", left: budget{Commands: 2}, operators: "lane x/a second; lane x/a main", isLong: true},
		{name: "lanes: two routes", lanes: true, text: "x/a add a1; 2:x/a add q1", operators: "lane x/a second; lane x/a main", isLong: true},
		{name: "lanes: third", lanes: true, text: "x/a add a1; later 3:x/a add b1; later 3:x/a add b2", operators: "lane x/a second", isLong: true},
		{name: "lanes: service", lanes: true, text: "x/a charge a1; later 2:x/a add q1", operators: "lane x/a second", isLong: true},
		{name: "lanes: send", lanes: true, text: "x/a tell a1 x/b; x/a tell a2 x/b", left: budget{Waits: 1}, recent: 1, operators: "lane x/b second", isLong: true},
		{name: "lanes: timer", lanes: true, text: "x/a wait a1", operators: "lane x/a second", isLong: true},
		{name: "lanes: child", lanes: true, isOneLane: true, text: "2:x/a help-c a1; 2:x/a release r1", isLong: true},
		{name: "lanes: redrive", lanes: true, text: "x/a add a1; x/a break a2", limit: 1, left: budget{Redrives: 1}, operators: "lane x/a second", isLong: true},
		{name: "lanes: restore", lanes: true, text: "x/a add a1; x/a add a2", left: budget{Restores: 1}, operators: "lane x/a second", isLong: true},
		{name: "lanes: end", lanes: true, text: "x/a finish a1 x/b; later 2:x/a add q1", operators: "lane x/a second", isLong: true},
	}
}

func familyScenarios() []*scenario {
	return []*scenario{
		{name: "child ends", text: "x/a help-c a1; x/a release r1", faults: 2},
		{name: "child is stopped", text: "x/a help-b a1; x/a cancel a2", faults: 2},
		{name: "child fails", text: "x/a help-c broken", limit: 1, faults: 2},
		{name: "child fails: meanwhile", text: "x/a help-c a1", limit: 1, versions: "defective children", left: budget{Olds: 1}, nested: 3, faults: 2},
		{name: "child is stopped: meanwhile", text: "x/a help-b a1; x/a cancel a2", nested: 2, faults: 2, isLong: true},
		{name: "child again", text: "x/a help-c a1; x/a again a2; x/a release r1", isLong: true},
		{name: "child with a service", text: "x/a help-d a1", faults: 2},
		{name: "child with a service stopped", text: "x/a help-d a1; x/a cancel a2", faults: 2},
		{name: "parent ends", text: "x/a help-b a1; x/a finish a2", faults: 2},
	}
}

func taskScenarios() []*scenario {
	aborted := task{name: "HandOver", execution: "execution 1"}
	unknown := task{name: "HandOver"}
	timed := task{name: "HandOver", execution: "execution 1", timeout: 10 * time.Minute}
	beating := task{name: "HandOver", execution: "execution 1", timeout: 90 * time.Second, heartbeat: 30 * time.Second}
	with := func(t task) map[string]task { return map[string]task{"x/a|1": t} }
	return []*scenario{
		{name: "task", text: "x/a task x/a|1; x/a hand a1", tasks: with(aborted), faults: 2},
		{name: "task: late", text: "x/a hand a1; x/a task x/a|1", tasks: with(aborted), faults: 2},
		{name: "task: unknown execution", text: "x/a task x/a|1; x/a hand a1", tasks: with(unknown), faults: 2},
		{name: "task: timeout", text: "x/a task x/a|1; x/a hand a1", tasks: with(timed), faults: 2},
		{name: "task: timeout only", text: "x/a task x/a|1", tasks: with(timed), limit: 1, faults: 2},
		{name: "task: heartbeats", text: "x/a task x/a|1", tasks: with(beating), limit: 1, faults: 2},
		{name: "task: end", text: "x/a task x/a|1; x/a finish a1", tasks: with(aborted), faults: 2},
		{name: "two tasks", text: "x/a task x/a|1; x/a task x/a|2; x/a hand a1", tasks: map[string]task{"x/a|1": aborted, "x/a|2": {name: "HandOver", execution: "execution 2"}}, faults: 2},
	}
}

func aliasScenarios() []*scenario {
	return []*scenario{
		{name: "alias", text: "x/a claim a1 k; x/a finish a2; x/b claim b1 k", faults: 2},
		{name: "alias: twice", text: "x/a claim a1 k; x/a finish a2; x/b claim b1 k; x/b claim b2 k"},
		{name: "alias: both end", text: "x/a claim a1 k; x/a finish a2; x/b claim b1 k; x/b finish b2", isLong: true},
		{name: "alias: one ends", text: "x/a claim a1 k; x/a finish a2", nested: 2, faults: 2},
		{name: "alias: limit 1", text: "x/a claim a1 k; x/b claim b1 k", limit: 1, faults: 2},
		{name: "two aliases", text: "x/a claim a1 k; x/a claim a2 n; x/b claim b1 n; x/b claim b2 k", isLong: true},
	}
}

func executionScenarios() []*scenario {
	return []*scenario{
		{name: "execution", text: "x/a print a1", faults: 2},
		{name: "execution: limit 1", text: "x/a print a1", limit: 1, faults: 2},
		{name: "execution: end", text: "x/a print a1; x/a finish a2", faults: 2},
		{name: "execution refused", text: "x/a print a1", refused: true, faults: 2},
	}
}

// copyScenarios have processes that use cached copies, current and stale ones.
func copyScenarios() []*scenario {
	return []*scenario{
		{name: "copies", text: "x/a add a1; x/a add a2; x/a add a3", left: budget{Copies: 2}, faults: 2},
		{name: "copies: duplicates", text: "x/a add a1; x/a add a2*; x/a add a2*", left: budget{Copies: 2}, faults: 2},
		{name: "copies: send", text: "x/a tell a1 x/b; x/a tell a2 x/b", left: budget{Copies: 2}, faults: 2},
		{name: "copies: queues", text: "x/a tell a1 x/b; 2:x/a tell q1 x/b; 2:x/a add q2", left: budget{Copies: 2}, faults: 2, isLong: true},
		{name: "copies: timer", text: "x/a add a1; x/a wait a2; 2:x/a add q1", left: budget{Copies: 2}, faults: 2, isLong: true},
		{name: "copies: service", text: "x/a add a1; x/a charge a2; 2:x/a add q1", left: budget{Copies: 1}, faults: 2, isLong: true},
		{name: "copies: late service", text: "x/a add a1; x/a finish a2; x/a charge a3", left: budget{Copies: 1}, faults: 2},
		{name: "copies: end", text: "x/a add a1; x/a finish a2 x/b; 2:x/a add q1", left: budget{Copies: 2}, faults: 2, isLong: true},
		{name: "copies: poison", text: "x/a add a1; x/a break a2; 2:x/a add q1", limit: 1, left: budget{Copies: 2}, faults: 2, isLong: true},
		{name: "copies: stop", text: "x/a add a1; x/a tell a2 x/b", left: budget{Copies: 2}, operators: "stop x/a; keep x/a", isLong: true},
		{name: "copies: child", text: "x/a help-c a1; x/a release r1", left: budget{Copies: 2}, isLong: true},
		{name: "copies: task", text: "x/a add a1; x/a task x/a|1; x/a hand a2", tasks: map[string]task{"x/a|1": {name: "HandOver", execution: "execution 1"}}, left: budget{Copies: 2}, isLong: true},
	}
}
