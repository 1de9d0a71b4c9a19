package template_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/settle-run/settle/infra/cdk/internal/template"
)

// synthesized is a small template as CDK writes it.
const synthesized = `{"Resources": {
  "Role": {"Type": "AWS::IAM::Role", "Properties": {"Policies": [{"PolicyDocument": {"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": {"Fn::GetAtt": ["Queue", "Arn"]}, "Condition": {"StringEquals": {"a:b": ["c", "d"]}}}]}}]}},
  "Grant": {"Type": "AWS::IAM::Policy", "Properties": {"Roles": [{"Ref": "Role"}], "PolicyDocument": {"Statement": [
    {"Effect": "Allow", "Action": ["kms:Decrypt"], "Resource": {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":key"]]}}]}}},
  "Consumer": {"Type": "AWS::Lambda::Function", "DependsOn": ["Role", "Grant"], "Properties": {"Role": {"Fn::GetAtt": ["Role", "Arn"]}, "Timeout": 60,
    "Environment": {"Variables": {"INDEX": "on", "URL": {"Ref": "Queue"}, "LITERAL": "${x}", "SECRET": {"Fn::Join": ["", ["{{resolve:", {"Ref": "Key"}, "}} ${y}"]]}}}}}
}, "Conditions": {"Has": {"Fn::Not": [{"Fn::Equals": [{"Ref": "Topic"}, ""]}]}, "Some": {"Fn::Equals": [{"Fn::Join": ["", {"Ref": "Names"}]}, "a"]}}}`

func TestTemplateIsRenderedAsReadableYAML(t *testing.T) {
	t.Parallel()
	got, err := template.Render([]byte(synthesized))
	if err != nil {
		t.Fatal(err)
	}
	const want = "# Generated from infra/cdk by `make infra INFRA_FLAGS=-update`. Do not edit.\n" + `AWSTemplateFormatVersion: "2010-09-09"
Conditions:
  Has: !Not [!Equals [!Ref Topic, ""]]
  Some: !Equals [!Join ["", !Ref Names], a]
Resources:
  Role:
    Type: AWS::IAM::Role
    Properties:
      Policies:
        - PolicyDocument:
            Version: "2012-10-17"
            Statement:
              - Effect: Allow
                Action: sqs:SendMessage
                Resource: !GetAtt Queue.Arn
                Condition:
                  StringEquals:
                    a:b:
                      - c
                      - d
  Grant:
    Type: AWS::IAM::Policy
    Properties:
      Roles:
        - !Ref Role
      PolicyDocument:
        Statement:
          - Effect: Allow
            Action:
              - kms:Decrypt
            Resource: !Sub arn:${AWS::Partition}:key
  Consumer:
    Type: AWS::Lambda::Function
    DependsOn:
      - Grant
    Properties:
      Role: !GetAtt Role.Arn
      Timeout: 60
      Environment:
        Variables:
          INDEX: "on"
          URL: !Ref Queue
          LITERAL: ${x}
          SECRET: !Sub '{{resolve:${Key}}} ${!y}'
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRenderedTemplateIsParsed(t *testing.T) {
	t.Parallel()
	rendered, err := template.Render([]byte(synthesized))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := template.Parse(rendered)
	if err != nil {
		t.Fatal(err)
	}
	functions, err := template.Functions(parsed)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{consumer Consumer 60 0 map[INDEX:on LITERAL:${!x} SECRET:{{resolve:${Key}}} ${!y} URL:${Queue}] ` +
		`[{[sqs:SendMessage] [${Queue.Arn}] map[StringEquals:map[a:b:[c d]]]} {[kms:Decrypt] [arn:${AWS::Partition}:key] map[]}]}]`
	if got := fmt.Sprint(functions); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	direct, err := template.Parse([]byte(synthesized))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := template.Functions(direct); err != nil || fmt.Sprint(again) != want {
		t.Errorf("from the synthesized template: got %v, %v", again, err)
	}
}

func TestAddedStatements(t *testing.T) {
	t.Parallel()
	parse := func(from, to string) template.Template {
		parsed, err := template.Parse([]byte(strings.Replace(synthesized, from, to, 1)))
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	const decrypt = `{"Effect": "Allow", "Action": ["kms:Decrypt"]`
	before, after := parse("", ""), parse(decrypt, `{"Effect": "Allow", "Action": "kms:Encrypt", "Resource": {"Ref": "Key"}}, `+decrypt)
	added, err := template.Added(before, after)
	if got := fmt.Sprint(added); err != nil || got != "map[consumer:[{[kms:Encrypt] [${Key}] map[]}]]" {
		t.Errorf("expected the added statement, got %s, %v", got, err)
	}
	if same, err := template.Added(after, after); err != nil || len(same) != 0 {
		t.Errorf("expected nothing, got %v, %v", same, err)
	}
	if _, err := template.Added(after, before); err == nil || !strings.Contains(err.Error(), "function consumer: expected to keep {[kms:Encrypt]") {
		t.Errorf("expected an error that names the removed statement, got %v", err)
	}
}

// A permission that the extract omits would stay unchecked.
func TestHiddenPermissionsAreRejected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ from, to, want string }{
		"a managed policy":        {`"Properties": {"Policies"`, `"Properties": {"ManagedPolicyArns": ["arn:x"], "Policies"`, "expected no managed policy"},
		"a statement that denies": {`"Effect": "Allow", "Action": "sqs:SendMessage"`, `"Effect": "Deny", "Action": "sqs:SendMessage"`, "expected a statement that allows"},
		"all but some actions":    {`"Action": "sqs:SendMessage"`, `"NotAction": "sqs:SendMessage"`, "expected a statement that allows"},
		"all but some resources":  {`"Resource": {"Fn::GetAtt"`, `"NotResource": {"Fn::GetAtt"`, "expected a statement that allows"},
		"a conditional resource":  {`{"Fn::GetAtt": ["Queue", "Arn"]}`, `{"Fn::If": ["Has", "a", "b"]}`, "got Fn::If"},
		"a role from elsewhere":   {`"Role": {"Fn::GetAtt": ["Role", "Arn"]}`, `"Role": "arn:aws:iam::1:role/admin"`, "expected a role of the template"},
	} {
		parsed, err := template.Parse([]byte(strings.Replace(synthesized, c.from, c.to, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := template.Functions(parsed); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: expected an error containing %q, got %v", name, c.want, err)
		}
	}
}

func TestInvalidTemplatesAreRejected(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "got nothing", "a: [": "reading the template", "- a": "expected a mapping", "a: &x 1\nb: *x": "got an alias"} {
		if _, err := template.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: expected an error containing %q, got %v", text, want, err)
		}
	}
	if _, err := template.Render([]byte(`{"Outputs": {}}`)); err == nil || !strings.Contains(err.Error(), "expected a template with Resources") {
		t.Errorf("expected an error about Resources, got %v", err)
	}
	if _, err := template.Text(7); err == nil || errors.Unwrap(err) == nil || !strings.Contains(err.Error(), "got 7") {
		t.Errorf("expected an error that names 7, got %v", err)
	}
}
