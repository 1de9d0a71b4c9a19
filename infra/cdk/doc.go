// Package cdk has Settle as a construct of the AWS Cloud Development Kit: queues, table, functions, HTTP API,
// workflows, roles, alarms and a dashboard, for any stack.
//
//	cdk.NewSettle(stack, "Settle", cdk.Props{Code: cdk.CodeFromFolder(".bin/functions/arm64")})
//
// infra/template.yaml is made from the same construct, for those who deploy without CDK. The package is in a
// module of its own: who imports Settle's runtime does not inherit CDK, nor Node.
package cdk
