#!/usr/bin/env bash
# Uploads the functions' zips and deploys infra/template.yaml. It needs only the aws CLI. `make deploy` builds the zips and calls it.
#
#   infra/deploy.sh <ZIPS
#
# ZIPS is the output of infra/pack: lines with a function, the key of its zip, the zip's checksum, and its path.
#
#   STACK         the stack's name; settle by default. It must not end in -dlq
#   BUCKET        the bucket for the zips; by default settle-code-ACCOUNT-REGION, which is created if missing
#   BUCKET_OWNER  the account that owns BUCKET; by default the account of the credentials
#   PARAMETERS    parameters of the template, such as 'AlarmTopic=arn:... ConsumerConcurrency=20 UploadBuckets=sales,warehouse RotateEnrichCallbackKey=on'
#   OWN           the folder of your own functions, if ZIPS contains any: the stack then has no open route, unless PARAMETERS sets
#                 GitHubWebhook=on or Callbacks=on
#   LANES, LANE_RULES  the lanes and rules of TEMPLATE, as in 'main:50 bulk:10'; by default, the stack has only the main lane
#   TEMPLATE      the template with LANES, which `make template` writes; by default infra/template.yaml, which has no lanes
#   REMOVE_LANES=1  removes lanes that the stack has and LANES does not name; without it, the script refuses to do so
#   DRY=1         prints the commands without running them
set -euo pipefail

template=${TEMPLATE:-$(dirname "${BASH_SOURCE[0]}")/template.yaml}
stack=${STACK:-settle}
zips=$(cat) # Read everything first, so that the writer gets no broken pipe if this script fails.

# run prints a command and, unless DRY is set, runs it.
run() {
	printf '+'
	printf ' %q' "$@"
	printf '\n'
	if [[ -z ${DRY:-} ]]; then "$@"; fi
}

# failed_first prints instructions for a stack whose first deployment failed. Such a stack is in ROLLBACK_COMPLETE or
# ROLLBACK_FAILED and can only be deleted. Its table remains because of DeletionPolicy Retain. For any other stack, failed_first returns 1.
failed_first() {
	local where=(--region "$region" --stack-name "$stack") status table
	if [[ -n ${DRY:-} ]]; then return 1; fi
	status=$(aws cloudformation describe-stacks "${where[@]}" --query 'Stacks[0].StackStatus' --output text 2>/dev/null) || return 1
	if [[ $status != ROLLBACK_COMPLETE && $status != ROLLBACK_FAILED ]]; then return 1; fi
	table=$(aws cloudformation list-stack-resources "${where[@]}" \
		--query "StackResourceSummaries[?ResourceType=='AWS::DynamoDB::Table' && ResourceStatus=='DELETE_SKIPPED'].PhysicalResourceId" --output text) || true
	cat >&2 <<-END
		The stack $stack is in $status: its first deployment failed, and CloudFormation cannot update it. Delete it, then deploy again:
		  aws cloudformation delete-stack ${where[*]} && aws cloudformation wait stack-delete-complete ${where[*]}
		To see first why it failed:
		  aws cloudformation describe-stack-events ${where[*]} --query "StackEvents[?ResourceStatus=='CREATE_FAILED'].[LogicalResourceId,ResourceStatusReason]" --output text
	END
	if [[ -n $table && $table != None ]]; then
		cat >&2 <<-END
			The empty table $table remains, and the next stack does not use it. To delete it:
			  aws dynamodb update-table --region $region --table-name $table --no-deletion-protection-enabled && aws dynamodb wait table-exists --region $region --table-name $table && aws dynamodb delete-table --region $region --table-name $table
		END
	fi
}

# removes_lanes prints instructions if the deployment would remove a lane of the stack. Otherwise, it returns 1.
removes_lanes() {
	local deployed lane removed=() names
	names=" ${lanes[*]-} "
	if [[ -n ${DRY:-} || -n ${REMOVE_LANES:-} ]]; then return 1; fi
	deployed=$(aws cloudformation describe-stacks --region "$region" --stack-name "$stack" \
		--query "Stacks[0].Outputs[?OutputKey=='Lanes'].OutputValue" --output text 2>/dev/null) || return 1
	while read -r -d, lane; do
		if [[ $lane == *=* && $names != *" ${lane%%=*} "* ]]; then removed+=("${lane%%=*}"); fi
	done <<<"$deployed,"
	if ((${#removed[@]} == 0)); then return 1; fi
	cat >&2 <<-END
		The stack $stack has lanes that this deployment would remove: ${removed[*]}. Their queues would remain, but no function would read them.
		To keep the lanes, name them in LANES. To remove them, wait until their queues are empty, and set REMOVE_LANES=1.
	END
}

# The schedule group has the stack's name, which is limited to 64 characters. The longest queue name adds -executions-dlq, within SQS's limit of 80.
if [[ ! $stack =~ ^[A-Za-z][A-Za-z0-9-]{0,63}$ ]]; then
	echo "expected STACK to be a name of up to 64 letters, digits and hyphens, got '$stack'" >&2
	exit 2
fi
if [[ $stack == *-dlq ]]; then
	echo "expected STACK not to end in -dlq, got '$stack': $stack.fifo is the dead-letter queue of the stack ${stack%-dlq}, so choose another name" >&2
	exit 2
fi
lanes=()
for lane in ${LANES:-}; do lanes+=("${lane%%:*}"); done
for lane in ${lanes[@]+"${lanes[@]}"}; do
	queue=$stack-$lane.fifo
	if [[ $lane != main ]] && ((${#queue} > 80)); then
		echo "expected queue names of at most 80 characters, got ${#queue}, '$queue': choose a shorter name for the stack or the lane" >&2
		exit 2
	fi
done
if [[ -n ${LANE_RULES:-} && -z ${LANES:-} ]]; then
	echo "expected LANES with LANE_RULES, got no lanes: name all lanes with their sizes, as in LANES='main:50 bulk:10'" >&2
	exit 2
fi
read -r -d '' -a more <<<"${PARAMETERS:-}" || true # read returns 1 at the end of its input
code=() uploads=()
while read -r function key sum zip; do
	case $function in
	consumer) parameter=ConsumerCode ;;
	gateway) parameter=GatewayCode ;;
	delay) parameter=DelayCode ;;
	executions) parameter=ExecutionsCode ;;
	tokentask) parameter=TokentaskCode ;;
	objects) parameter=ObjectsCode ;;
	*) continue ;; # not in the template
	esac
	if [[ -z $zip ]]; then
		echo "expected lines with a function, a key, a checksum and a path, got: $function $key $sum" >&2
		exit 2
	fi
	code+=("$parameter=$stack/$key") uploads+=("$key $sum $zip")
done <<<"$zips"
if ((${#code[@]} != 6)); then
	echo "expected six functions on standard input, got: ${zips//$'\n'/, }" >&2
	exit 2
fi
known=$(sed -n '/^Parameters:/,/^[A-Z]/s/^  \([A-Za-z]*\):$/\1/p' "$template" | grep -v Code)
for parameter in ${more[@]+"${more[@]}"}; do
	if [[ -n ${LANES:-} && $parameter =~ ^Consumer(Concurrency|Pollers)= ]]; then
		echo "expected no ${parameter%%=*} with LANES, got '$parameter': set the size of the main lane in LANES, as in 'main:20 bulk:10'" >&2
		exit 2
	fi
	if ! grep -qxF -e "${parameter%%=*}" <<<"$known" || [[ $parameter != *=* ]]; then
		echo "expected PARAMETERS to be NAME=VALUE pairs with one of the names ${known//$'\n'/ }, got '$parameter'" >&2
		exit 2
	fi
	# CloudFormation cannot compare numbers. It checks the rest of the value.
	if [[ $parameter =~ ^ConsumerPollers=([1-9][0-9]{0,4})-([1-9][0-9]{0,4})$ ]] && ((BASH_REMATCH[1] > BASH_REMATCH[2])); then
		echo "expected ConsumerPollers to be MINIMUM-MAXIMUM, such as 2-20, got '${parameter#*=}', whose minimum exceeds its maximum" >&2
		exit 2
	fi
done
if [[ -n ${OWN:-} ]]; then # Own functions may have no handler for the open routes.
	for route in GitHubWebhook Callbacks; do
		if [[ " ${more[*]-} " != *" $route="* ]]; then more+=("$route=off"); fi
	done
fi
if [[ -n ${DRY:-} ]]; then
	account=ACCOUNT region=${AWS_REGION:-${AWS_DEFAULT_REGION:-REGION}}
else
	region=${AWS_REGION:-${AWS_DEFAULT_REGION:-$(aws configure get region || true)}}
	if [[ -z $region ]]; then
		echo 'expected a Region, found none: set AWS_REGION, or run aws configure set region eu-central-1' >&2
		exit 2
	fi
	export AWS_DEFAULT_REGION=$region # Version 1 of the CLI does not read AWS_REGION.
	account=$(aws sts get-caller-identity --query Account --output text)
fi
if failed_first || removes_lanes; then exit 1; fi
bucket=${BUCKET:-settle-code-$account-$region} owner=$account
if [[ -n ${BUCKET:-} ]]; then owner=${BUCKET_OWNER:-$account}; fi
owned=(--region "$region" --bucket "$bucket" --expected-bucket-owner "$owner")
if [[ -n ${DRY:-} ]] || ! aws s3api head-bucket "${owned[@]}" >/dev/null 2>&1; then
	if [[ -z ${BUCKET:-} ]]; then
		run aws s3 mb "s3://$bucket" --region "$region"
	elif [[ -z ${DRY:-} ]]; then
		echo "expected the bucket $bucket to exist and to belong to the account $owner: set BUCKET to a bucket of this account, or BUCKET_OWNER to the account that owns it" >&2
		exit 2
	fi
fi

for upload in "${uploads[@]}"; do
	read -r key sum zip <<<"$upload"
	# The key contains a hash, but S3 does not check that an object's content has this hash. An object that another tool uploaded may have no checksum.
	if [[ -z ${DRY:-} ]] && stored=$(aws s3api head-object "${owned[@]}" --key "$stack/$key" --checksum-mode ENABLED --query ChecksumSHA256 --output text 2>/dev/null) &&
		[[ $stored == "$sum" ]]; then
		continue
	fi
	run aws s3api put-object "${owned[@]}" --key "$stack/$key" --body "$zip" --checksum-sha256 "$sum" --query ChecksumSHA256 --output text
done
parameters=("CodeBucket=$bucket" "${code[@]}" ${more[@]+"${more[@]}"}) # Old shells treat the expansion of an empty array as an error.

# --force-upload replaces a template that is already in the bucket.
if ! run aws cloudformation deploy --region "$region" --stack-name "$stack" --template-file "$template" \
	--s3-bucket "$bucket" --s3-prefix "$stack" --force-upload --capabilities CAPABILITY_IAM --no-fail-on-empty-changeset \
	--parameter-overrides "${parameters[@]}"; then
	failed_first || true # A failed update is rolled back, and the stack keeps running.
	exit 1
fi
run aws cloudformation update-termination-protection --enable-termination-protection --region "$region" --stack-name "$stack" --query StackId --output text
run aws cloudformation describe-stacks --region "$region" --stack-name "$stack" \
	--query 'Stacks[0].Outputs[].[OutputKey,OutputValue]' --output text
