//go:build race

package xstatejson_test

const machines = machinesUnderRace
