package awslocal_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/settle-run/settle/infra/awslocal"
)

func TestTheCallerIsTheUserOfTheAccessKey(t *testing.T) {
	t.Parallel()
	client := sts.NewFromConfig(aws.Config{
		Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: awslocal.New(awslocal.Config{}).HTTPClient(),
		Credentials: credentials.NewStaticCredentialsProvider("alice", "secret", ""),
	})
	got, err := client.GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	if err != nil {
		t.Fatal(err)
	}
	if *got.Arn != "arn:aws:iam::000000000000:user/alice" || *got.UserId != "alice" || *got.Account != awslocal.Account {
		t.Errorf("got %s, %s, %s", *got.Arn, *got.UserId, *got.Account)
	}
}
