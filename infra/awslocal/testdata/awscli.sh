#!/usr/bin/env bash
# Tests awslocal with the installed aws CLI: `make awscli`. The argument is the URL at which `settle dev`
# serves AWS. Prints a line for each successful check and stops at the first failed one.
set -euo pipefail

endpoint=$1
export AWS_ENDPOINT_URL=$endpoint AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1 AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any \
	AWS_PAGER='' AWS_EC2_METADATA_DISABLED=true AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null
unset AWS_PROFILE AWS_SESSION_TOKEN
name=awscli-$$

# The CLI reads AWS_ENDPOINT_URL since 2.13 (and 1.29). Older versions need the option.
aws() { command aws --endpoint-url "$endpoint" --output text "$@"; }

expect() { # what, expected, got
	if [[ $2 != "$3" ]]; then
		printf 'FAILED: %s: expected %s, got %s\n' "$1" "$2" "$3" >&2
		exit 1
	fi
	printf 'ok: %s\n' "$1"
}

# refused runs a command that must fail with the given code.
refused() { # what, code, command...
	local what=$1 code=$2 said
	shift 2
	if said=$(aws "$@" 2>&1); then
		printf 'FAILED: %s: expected %s, got success: %s\n' "$what" "$code" "$said" >&2
		exit 1
	fi
	case $said in
		*"$code"*) printf 'ok: %s\n' "$what" ;;
		*) printf 'FAILED: %s: expected %s, got %s\n' "$what" "$code" "$said" >&2; exit 1 ;;
	esac
}

command aws --version

queue=$(aws sqs create-queue --queue-name "$name.fifo" --query QueueUrl \
	--attributes FifoQueue=true,ContentBasedDeduplication=true,VisibilityTimeout=60)
for body in one two; do
	aws sqs send-message --queue-url "$queue" --message-group-id group --message-body "$body" --query MessageId >/dev/null
done
expect 'a message can be received' one \
	"$(aws sqs receive-message --queue-url "$queue" --query 'Messages[0].Body')"
expect 'its group is locked' None \
	"$(aws sqs receive-message --queue-url "$queue" --query 'Messages[0].Body')"
expect 'the queue counts messages in flight' 1 \
	"$(aws sqs get-queue-attributes --queue-url "$queue" --attribute-names All --query Attributes.ApproximateNumberOfMessagesNotVisible)"
refused 'a queue that does not exist' NonExistentQueue sqs get-queue-url --queue-name "not-there-$$"

aws dynamodb create-table --table-name "$name" --billing-mode PAY_PER_REQUEST --query TableDescription.TableName \
	--attribute-definitions AttributeName=id,AttributeType=S AttributeName=n,AttributeType=N \
	--key-schema AttributeName=id,KeyType=HASH AttributeName=n,KeyType=RANGE >/dev/null
aws dynamodb wait table-exists --table-name "$name"
for n in 1 2 3; do
	aws dynamodb put-item --table-name "$name" --item "{\"id\": {\"S\": \"a\"}, \"n\": {\"N\": \"$n\"}}"
done
expect 'items can be queried' '2 3' \
	"$(aws dynamodb query --table-name "$name" --key-condition-expression 'id = :id AND n > :n' \
		--expression-attribute-values '{":id": {"S": "a"}, ":n": {"N": "1"}}' --query 'Items[].n.N' | tr '\t' ' ')"
refused 'a condition that fails' ConditionalCheckFailedException dynamodb put-item --table-name "$name" \
	--item '{"id": {"S": "a"}, "n": {"N": "1"}}' --condition-expression 'attribute_not_exists(id)'

machine=$(aws stepfunctions create-state-machine --name "$name" --role-arn arn:aws:iam::000000000000:role/any \
	--query stateMachineArn --definition '{"StartAt": "Wait", "States": {
		"Wait": {"Type": "Wait", "Seconds": 1, "Next": "Pass"},
		"Pass": {"Type": "Pass", "Result": {"done": true}, "End": true}}}')
execution=$(aws stepfunctions start-execution --state-machine-arn "$machine" --name first --input '{"n": 1}' --query executionArn)
for _ in $(seq 50); do
	status=$(aws stepfunctions describe-execution --execution-arn "$execution" --query status)
	[[ $status == RUNNING ]] || break
	sleep 0.1
done
expect 'an execution runs to its end' SUCCEEDED "$status"
expect 'it can be described' '{"done":true}' \
	"$(aws stepfunctions describe-execution --execution-arn "$execution" --query output | tr -d ' ')"
expect 'its history starts with ExecutionStarted' ExecutionStarted \
	"$(aws stepfunctions get-execution-history --execution-arn "$execution" --query 'events[0].type')"
refused 'JSONata' InvalidDefinition stepfunctions create-state-machine --name "$name-jsonata" \
	--role-arn arn:aws:iam::000000000000:role/any \
	--definition '{"QueryLanguage": "JSONata", "StartAt": "A", "States": {"A": {"Type": "Succeed"}}}'

at=$(date -u -d '+2 seconds' +%Y-%m-%dT%H:%M:%S 2>/dev/null || date -u -v+2S +%Y-%m-%dT%H:%M:%S)
target=$(aws sqs create-queue --queue-name "$name-scheduled" --query QueueUrl)
aws scheduler create-schedule --name "$name" --schedule-expression "at($at)" --flexible-time-window Mode=OFF \
	--target "Arn=arn:aws:sqs:us-east-1:000000000000:$name-scheduled,RoleArn=arn:aws:iam::000000000000:role/any,Input=hello" \
	--query ScheduleArn >/dev/null
expect 'a schedule fires into a queue' hello \
	"$(aws sqs receive-message --queue-url "$target" --wait-time-seconds 10 --query 'Messages[0].Body')"

printf 'ALL PASSED\n'
