// Package conformance holds no code but tests: it runs the SCXML documents of the npm package
// @scion-scxml/test-framework, the W3C's conformance suite among them, on package statechart.
//
// A reader makes a chart of each document, with ECMAScript as its data model. A host with a
// virtual clock then plays the case's script and compares whole configurations: all active
// atomic states after each event. Every snapshot is stored and restored on the way.
package conformance
