package main

import (
	"log/slog"

	"github.com/settle-run/settle/machines"
	"github.com/settle-run/settle/machines/demo"
	"github.com/settle-run/settle/machines/enrich"
	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/machines/pipeline"
	"github.com/settle-run/settle/machines/signup"
	"github.com/settle-run/settle/machines/upload"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart/xstatejson"
)

// hostedMachines returns the machines with simulated services that only log.
func hostedMachines(logger *slog.Logger, settings machines.Settings) []durable.Machine {
	return machines.All(demo.Services(logger), settings)
}

// writers write the charts of machines.All as XState configs, by machine ID. A durable.Machine hides its context type,
// so each chart is listed here again.
var writers = map[string]func() ([]byte, error){
	"enrich": func() ([]byte, error) { return xstatejson.Write(enrich.New(nil, enrich.Callbacks{}, enrich.Config{})) },
	"job":    func() ([]byte, error) { return xstatejson.Write(job.New(nil, job.Config{})) },
	"upload": func() ([]byte, error) { return xstatejson.Write(upload.New(nil, upload.Config{})) },
	"pipeline": func() ([]byte, error) {
		return xstatejson.Write(pipeline.New(pipeline.Services{}, pipeline.Config{}))
	},
	"signup": func() ([]byte, error) { return xstatejson.Write(signup.New(nil, nil, signup.Config{})) },
}
