// Package cdk provides Settle as a construct of the AWS Cloud Development Kit: queues, table, functions, HTTP API, workflows,
// roles, alarms and a dashboard, for any stack.
//
//	cdk.NewSettle(stack, "Settle", cdk.Props{Code: cdk.CodeFromFolder(".bin/functions/arm64")})
//
// infra/template.yaml is generated from the same construct, for deployments without CDK. The package is a separate module, so
// that importing Settle's runtime does not add dependencies on CDK and Node.
package cdk
