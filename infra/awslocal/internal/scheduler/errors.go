package scheduler

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// validation returns a ValidationException.
func validation(format string, args ...any) *wire.Error {
	return wire.Errorf("ValidationException", format, args...)
}

// constraint returns the ValidationException for a value that violates a constraint of the API definition.
func constraint(value, parameter, format string, args ...any) *wire.Error {
	return validation("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: %s",
		value, parameter, fmt.Sprintf(format, args...))
}

// missing returns the ValidationException for a missing required parameter.
func missing(parameter string) *wire.Error {
	return validation("1 validation error detected: Value at '%s' failed to satisfy constraint: Member must not be null", parameter)
}

func conflict(format string, args ...any) *wire.Error {
	err := wire.Errorf("ConflictException", format, args...)
	err.Status = http.StatusConflict
	return err
}

func notFound(format string, args ...any) *wire.Error {
	err := wire.Errorf("ResourceNotFoundException", format, args...)
	err.Status = http.StatusNotFound
	return err
}

func noSuchGroup(name string) *wire.Error {
	return notFound("Schedule group %s does not exist.", name)
}

func noSuchSchedule(name string) *wire.Error {
	return notFound("Schedule %s does not exist.", name)
}

// checkEnum rejects a value that is not allowed.
func checkEnum(parameter, value string, allowed ...string) *wire.Error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return constraint(value, parameter, "Member must satisfy enum value set: [%s]", strings.Join(allowed, ", "))
}

// checkRange rejects a number outside a range.
func checkRange(parameter string, value, lowest, highest int) *wire.Error {
	if value < lowest {
		return constraint(strconv.Itoa(value), parameter, "Member must have value greater than or equal to %d", lowest)
	}
	if value > highest {
		return constraint(strconv.Itoa(value), parameter, "Member must have value less than or equal to %d", highest)
	}
	return nil
}

// checkLength rejects a string whose length is outside a range.
func checkLength(parameter, value string, lowest, highest int) *wire.Error {
	if len(value) < lowest {
		return constraint(value, parameter, "Member must have length greater than or equal to %d", lowest)
	}
	if len(value) > highest {
		return constraint(value, parameter, "Member must have length less than or equal to %d", highest)
	}
	return nil
}

var namePattern = regexp.MustCompile(`^[0-9a-zA-Z-_.]+$`)

// checkName rejects invalid names of schedules and groups.
func checkName(parameter, name string) *wire.Error {
	if err := checkLength(parameter, name, 1, 64); err != nil {
		return err
	}
	if !namePattern.MatchString(name) {
		return constraint(name, parameter, "Member must satisfy regular expression pattern: %s", namePattern)
	}
	return nil
}
