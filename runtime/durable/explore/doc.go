// Package explore has no code of its own, only tests: an exhaustive search of the durable loop in a small scope.
//
// A test of one schedule proves one schedule. Random runs mostly find the defects that many schedules reach. This
// package plays every schedule of a small scope: two instances, up to four messages, limits of 1 or 2, and one to three
// faults.
//
// The search runs the real [durable.Loop] over ports in memory. All state that outlives a process is one value, the
// world. While no process runs, the search tries each thing that can happen next: SQS delivers a batch, a timer fires,
// DynamoDB deletes an expired item. Within an invocation, a list of decisions gives each call of a port its outcome.
// The call proceeds, has no effect or loses its answer, or the process dies or freezes at the call. The search repeats
// an invocation from a copy of the world for each list of decisions, and expands each distinct world once.
//
// The properties are the promises of docs/guarantees.md. A violation prints the shortest schedule that leads to it, as a
// script. A script in testdata is a regression test: it names the violation that the schedule leads to, or nothing.
//
// scope_test.go has the flags, scenarios_test.go the scenarios, properties_test.go the properties, and ports_test.go
// the ports of the loop. invocation_test.go has the outcomes of a call, actions_test.go the actions between
// invocations, commands_test.go the commands of operators, and search_test.go the search.
package explore
