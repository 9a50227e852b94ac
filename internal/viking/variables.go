package viking

import (
	"fmt"
	"strings"
	"time"
)

const calendarPrefix = "{calendar:"

// ExpandVariables puts dates in place of the {calendar:KEY} path variables of
// G.2, in UTC (0.3). Weeks are ISO weeks, and {calendar:yw} gives the ISO year.
// An unknown key or a missing brace is an error; other braces stay as they are.
// The outcome is never longer than raw, and has no variable left in it.
func ExpandVariables(raw string, at time.Time) (string, error) {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(raw, calendarPrefix)
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		key, rest, closed := strings.Cut(after, "}")
		if !closed {
			return "", fmt.Errorf("path variable %s is not closed", calendarPrefix)
		}
		value, known := calendar(key, at.UTC())
		if !known {
			return "", fmt.Errorf("path variable %s%s} is unknown", calendarPrefix, display(key))
		}
		out.WriteString(value)
		raw = rest
	}
}

func calendar(key string, at time.Time) (value string, known bool) {
	const day = "2006/01/02"
	isoYear, isoWeek := at.ISOWeek()
	quarter := (int(at.Month())-1)/3 + 1
	switch key {
	case "today":
		return at.Format(day), true
	case "yesterday":
		return at.AddDate(0, 0, -1).Format(day), true
	case "tomorrow":
		return at.AddDate(0, 0, 1).Format(day), true
	case "year":
		return at.Format("2006"), true
	case "month":
		return at.Format("01"), true
	case "day":
		return at.Format("02"), true
	case "ym":
		return at.Format("2006/01"), true
	case "quarter":
		return fmt.Sprintf("Q%d", quarter), true
	case "yq":
		return fmt.Sprintf("%s/Q%d", at.Format("2006"), quarter), true
	case "week":
		return fmt.Sprintf("%02d", isoWeek), true
	case "yw":
		return fmt.Sprintf("%04d/w%02d", isoYear, isoWeek), true
	}
	return "", false
}
