module github.com/settle-run/settle/runtime/statechart/benchmark

go 1.26

require (
	github.com/felixgeelhaar/statekit v1.0.1
	github.com/looplab/fsm v1.0.3
	github.com/qmuntal/stateless v1.7.2
	github.com/settle-run/settle v0.0.0
)

replace github.com/settle-run/settle => ../../..
