// Package conformance contains only tests. It runs the SCXML documents of the npm package @scion-scxml/test-framework,
// which include the W3C's conformance suite, on package statechart.
//
// A reader converts each document to a chart, with ECMAScript as its data model. A host with a virtual clock then plays
// the script of the case. It compares whole configurations: all active atomic states after each event. It stores and
// restores every snapshot.
package conformance
