#!/usr/bin/env bash
# Deletes a stack of infra/template.yaml or of infra/cdk/app. It refuses if the stack has live instances or messages in its queues, including
# parked events. If the stack is protected against deletion, it asks for the stack's name. It keeps the table, unless DELETE_TABLE is set.
# `make destroy` calls it.
#
#   STACK         the stack's name; settle by default
#   FORCE=1       deletes the stack despite live instances and messages; the messages and timers are lost
#   DELETE_TABLE=1  also deletes the table
#   DRY=1         prints the commands without running them
set -euo pipefail

stack=${STACK:-settle}
if [[ -n ${DRY:-} ]]; then
	region=${AWS_REGION:-${AWS_DEFAULT_REGION:-REGION}}
else
	region=${AWS_REGION:-${AWS_DEFAULT_REGION:-$(aws configure get region || true)}}
	if [[ -z $region ]]; then
		echo 'expected a Region, found none: set AWS_REGION, or run aws configure set region eu-central-1' >&2
		exit 2
	fi
fi

say() {
	printf '+'
	printf ' %q' "$@"
	printf '\n'
}

run() {
	say "$@"
	if [[ -z ${DRY:-} ]]; then "$@"; fi
}

# ask runs a command that only reads. With DRY, it prints the command and returns a placeholder.
ask() {
	local stand_in=$1
	shift
	if [[ -n ${DRY:-} ]]; then
		say "$@" >&2
		printf '%s\n' "$stand_in"
	else
		"$@"
	fi
}

output() {
	ask "$1" aws cloudformation describe-stacks --region "$region" --stack-name "$stack" \
		--query "Stacks[0].Outputs[?OutputKey=='$1'].OutputValue" --output text
}

# messages counts the messages of a queue.
messages() {
	local counts count sum=0
	counts=$(ask 0 aws sqs get-queue-attributes --region "$region" --queue-url "$1" --attribute-names ApproximateNumberOfMessages \
		ApproximateNumberOfMessagesNotVisible ApproximateNumberOfMessagesDelayed --query 'values(Attributes)' --output text) || return
	for count in $counts; do sum=$((sum + count)); done
	echo "$sum"
}

table=$(output TableName)
queue=$(output QueueUrl)
if [[ -z $table || -z $queue ]]; then
	echo "expected the stack $stack to have the outputs TableName and QueueUrl, as stacks of make deploy, make deploy-cdk and AddOutputs have. A stack in ROLLBACK_COMPLETE has none. To delete it: aws cloudformation delete-stack --region $region --stack-name $stack" >&2
	exit 1
fi

# The scan stops after five live instances. If there are none, it reads the whole table.
live=$(ask '' aws dynamodb scan --region "$region" --table-name "$table" --consistent-read --projection-expression instance \
	--filter-expression '#status = :active' --expression-attribute-names '{"#status": "status"}' \
	--expression-attribute-values '{":active": {"S": "active"}}' --max-items 5 --query 'Items[].instance.S' --output text |
	tr '\t' '\n' | sed -e '/^None$/d' -e '/^$/d' | paste -sd ' ' -)
waiting=0
base=${queue%.fifo}
queues=("$queue" "$base-dlq.fifo" "$base"-{delay,delay-dlq,executions,executions-dlq})
# A CDK stack without upload buckets has no such queue.
uploads=$(ask "$base-objects-dlq" aws sqs list-queues --region "$region" --queue-name-prefix "${base##*/}-objects-dlq" --query 'QueueUrls[]' --output text)
if [[ $uploads == *-objects-dlq ]]; then queues+=("$base-objects-dlq"); fi
lanes=$(output Lanes)
while read -r -d, lane; do
	if [[ $lane == *=* ]]; then queues+=("$base-${lane%%=*}.fifo"); fi
done <<<"$lanes,"
for url in "${queues[@]}"; do
	count=$(messages "$url")
	waiting=$((waiting + count))
done
if [[ -n $live ]] || ((waiting > 0)); then
	if [[ -n $live ]]; then echo "The stack $stack has live instances, such as: $live" >&2; fi
	echo "The stack $stack has about $waiting messages in its queues, including parked events." >&2
	if [[ -z ${FORCE:-} ]]; then
		echo 'Let them end, or set FORCE=1 to delete the stack anyway.' >&2
		exit 1
	fi
fi

state=$(ask 'StackId True' aws cloudformation describe-stacks --region "$region" --stack-name "$stack" \
	--query 'Stacks[0].[StackId,EnableTerminationProtection]' --output text)
read -r id protected <<<"$state"
if [[ $protected == True ]]; then
	off=(aws cloudformation update-termination-protection --no-enable-termination-protection --region "$region" --stack-name "$stack" --query StackId --output text)
	if [[ -z ${DRY:-} ]]; then
		printf 'The stack %s is protected against deletion. To switch this off, this script runs:\n  %s\nType the name of the stack to switch it off and to delete the stack: ' "$stack" "${off[*]}" >&2
		read -r answer || true
		if [[ $answer != "$stack" ]]; then
			echo "expected the name $stack, got '$answer': nothing is deleted" >&2
			exit 1
		fi
	fi
	run "${off[@]}"
fi
run aws cloudformation delete-stack --region "$region" --stack-name "$stack"
run aws cloudformation wait stack-delete-complete --region "$region" --stack-name "$stack"

# CloudFormation keeps the queues and the schedule group. They would block the next stack with this name. Producers may have sent since the check.
left=$(ask $'AWS::SQS::Queue QueueUrl\nAWS::Scheduler::ScheduleGroup ScheduleGroup' aws cloudformation list-stack-resources --region "$region" --stack-name "$id" \
	--query "StackResourceSummaries[?ResourceStatus=='DELETE_SKIPPED'].[ResourceType,PhysicalResourceId]" --output text)
while read -r kind name; do
	case $kind in
	AWS::SQS::Queue)
		count=$(messages "$name")
		if ((count > 0)) && [[ -z ${FORCE:-} ]]; then
			echo "Meanwhile about $count messages arrived in the queue $name, so it is kept. To delete it: aws sqs delete-queue --region $region --queue-url $name" >&2
			continue
		fi
		run aws sqs delete-queue --region "$region" --queue-url "$name"
		;;
	AWS::Scheduler::ScheduleGroup) run aws scheduler delete-schedule-group --region "$region" --name "$name" ;;
	esac
done <<<"$left"
if [[ -z ${DELETE_TABLE:-} ]]; then
	echo "The table $table is kept. To delete it: aws dynamodb update-table --region $region --table-name $table --no-deletion-protection-enabled, then aws dynamodb delete-table --region $region --table-name $table"
	exit 0
fi
run aws dynamodb update-table --region "$region" --table-name "$table" --no-deletion-protection-enabled
run aws dynamodb wait table-exists --region "$region" --table-name "$table"
run aws dynamodb delete-table --region "$region" --table-name "$table"
