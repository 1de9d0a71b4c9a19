#!/usr/bin/env bash
# Uploads the functions' zips and deploys infra/template.yaml, with the aws CLI alone. `make deploy` builds the zips and calls it.
#
#   infra/deploy.sh <ZIPS
#
# ZIPS are the lines of infra/pack: a function, the key of its zip, and the zip.
#
#   STACK         the stack's name; settle by default
#   BUCKET        the bucket for the zips; by default settle-code-ACCOUNT-REGION, which is made
#   PARAMETERS    parameters of the template, such as 'AlarmTopic=arn:... ConsumerConcurrency=20 UploadBuckets=sales,warehouse'
#   DRY=1         prints what would be done, and calls nothing
set -euo pipefail

template=$(dirname "${BASH_SOURCE[0]}")/template.yaml
stack=${STACK:-settle}

# run prints a command and, unless DRY is set, runs it.
run() {
	printf '+'
	printf ' %q' "$@"
	printf '\n'
	if [[ -z ${DRY:-} ]]; then "$@"; fi
}

# SQS takes names of 80 characters; the longest here is the stack's with -executions-dlq.
if [[ ! $stack =~ ^[A-Za-z][A-Za-z0-9-]{0,59}$ ]]; then
	echo "expected STACK to be a name of up to 60 letters, digits and hyphens, got '$stack'" >&2
	exit 2
fi
if [[ -n ${DRY:-} ]]; then
	account=ACCOUNT region=${AWS_REGION:-${AWS_DEFAULT_REGION:-REGION}}
else
	region=${AWS_REGION:-${AWS_DEFAULT_REGION:-$(aws configure get region)}}
	export AWS_DEFAULT_REGION=$region # version 1 of the CLI does not read AWS_REGION
	account=$(aws sts get-caller-identity --query Account --output text)
fi
bucket=${BUCKET:-settle-code-$account-$region}
if [[ -z ${BUCKET:-} ]] && { [[ -n ${DRY:-} ]] || ! aws s3api head-bucket --bucket "$bucket" --expected-bucket-owner "$account" >/dev/null 2>&1; }; then
	run aws s3 mb "s3://$bucket" --region "$region"
fi

parameters=("CodeBucket=$bucket")
while read -r function key zip; do
	case $function in
	consumer) parameter=ConsumerCode ;;
	gateway) parameter=GatewayCode ;;
	delay) parameter=DelayCode ;;
	executions) parameter=ExecutionsCode ;;
	tokentask) parameter=TokentaskCode ;;
	objects) parameter=ObjectsCode ;;
	*) continue ;; # not part of the template
	esac
	parameters+=("$parameter=$stack/$key")
	if [[ -z ${DRY:-} ]] && aws s3api head-object --bucket "$bucket" --key "$stack/$key" >/dev/null 2>&1; then
		continue # what is there has this content: the key has its hash
	fi
	run aws s3 cp --only-show-errors "$zip" "s3://$bucket/$stack/$key" --region "$region"
done
if ((${#parameters[@]} != 7)); then
	echo "expected six functions on standard input, got: ${parameters[*]:1}" >&2
	exit 2
fi
read -ra more <<<"${PARAMETERS:-}"
parameters+=(${more[@]+"${more[@]}"}) # an empty list is an error to old shells

run aws cloudformation deploy --region "$region" --stack-name "$stack" --template-file "$template" \
	--s3-bucket "$bucket" --s3-prefix "$stack" --capabilities CAPABILITY_IAM --no-fail-on-empty-changeset \
	--parameter-overrides "${parameters[@]}"
run aws cloudformation describe-stacks --region "$region" --stack-name "$stack" \
	--query 'Stacks[0].Outputs[].[OutputKey,OutputValue]' --output text
