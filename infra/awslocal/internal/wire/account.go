package wire

// Account and Region are the AWS account and Region of all awslocal resources. They appear in ARNs and queue URLs,
// whatever the caller's credentials are.
const (
	Account = "000000000000"
	Region  = "us-east-1"
)
