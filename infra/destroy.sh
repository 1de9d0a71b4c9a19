#!/usr/bin/env bash
# Deletes a stack of infra/template.yaml or of infra/cdk/app, unless instances are live in it, or events parked or on their way. The table stays, with what has
# ended, unless it is named. `make destroy` calls it.
#
#   STACK         the stack's name; settle by default
#   FORCE=1       deletes it although instances are live: they and their events are lost to it
#   DELETE_TABLE=1  deletes the table as well
#   DRY=1         prints what would be done, and calls nothing
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

# ask prints a command that only reads and, with DRY, gives a stand-in for its answer.
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

table=$(output TableName)
queue=$(output QueueUrl)
if [[ -z $table || -z $queue ]]; then
	echo "expected the stack $stack to have the outputs TableName and QueueUrl: is it one of make deploy, of make deploy-cdk, or one that calls AddOutputs? A stack in ROLLBACK_COMPLETE has none: aws cloudformation delete-stack --region $region --stack-name $stack" >&2
	exit 1
fi

# Up to five are named; if there are none, the whole table is read.
live=$(ask '' aws dynamodb scan --region "$region" --table-name "$table" --consistent-read --projection-expression instance \
	--filter-expression '#status = :active' --expression-attribute-names '{"#status": "status"}' \
	--expression-attribute-values '{":active": {"S": "active"}}' --max-items 5 --query 'Items[].instance.S' --output text |
	tr '\t' '\n' | sed -e '/^None$/d' -e '/^$/d' | paste -sd ' ' -)
waiting=0
base=${queue%.fifo}
queues=("$queue" "$base-dlq.fifo" "$base"-{delay,delay-dlq,executions,executions-dlq})
# A stack of the construct may have no uploads.
uploads=$(ask "$base-objects-dlq" aws sqs list-queues --region "$region" --queue-name-prefix "${base##*/}-objects-dlq" --query 'QueueUrls[]' --output text)
if [[ $uploads == *-objects-dlq ]]; then queues+=("$base-objects-dlq"); fi
for url in "${queues[@]}"; do
	counts=$(ask 0 aws sqs get-queue-attributes --region "$region" --queue-url "$url" --attribute-names ApproximateNumberOfMessages \
		ApproximateNumberOfMessagesNotVisible ApproximateNumberOfMessagesDelayed --query 'values(Attributes)' --output text)
	for count in $counts; do waiting=$((waiting + count)); done
done
if [[ -n $live ]] || ((waiting > 0)); then
	printf 'In the stack %s are live instances, such as: %s\nAbout %d messages are in its queues, parked ones among them.\n' "$stack" "${live:-none}" "$waiting" >&2
	if [[ -z ${FORCE:-} ]]; then
		echo 'Let them end, or give FORCE=1 to delete it all the same.' >&2
		exit 1
	fi
fi

run aws cloudformation delete-stack --region "$region" --stack-name "$stack"
run aws cloudformation wait stack-delete-complete --region "$region" --stack-name "$stack"
if [[ -z ${DELETE_TABLE:-} ]]; then
	echo "The table $table is kept. To delete it: aws dynamodb update-table --region $region --table-name $table --no-deletion-protection-enabled, then aws dynamodb delete-table --region $region --table-name $table"
	exit 0
fi
run aws dynamodb update-table --region "$region" --table-name "$table" --no-deletion-protection-enabled
run aws dynamodb wait table-exists --region "$region" --table-name "$table"
run aws dynamodb delete-table --region "$region" --table-name "$table"
