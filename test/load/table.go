package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// result is one line of the table.
type result struct {
	what, budget, measured string
	ok                     bool
	// note is what a reader has to know to judge the figure.
	note string
}

func (r result) verdict() string {
	if r.ok {
		return "ok"
	}
	return "MISSED"
}

func printTable(out io.Writer, results []result) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "\nwhat\tbudget\tmeasured\tverdict")
	for _, r := range results {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", r.what, r.budget, r.measured, r.verdict())
	}
	_ = table.Flush()
	_, _ = fmt.Fprintln(out)
	for _, r := range results {
		if r.note != "" {
			_, _ = fmt.Fprintf(out, "%s: %s\n", r.what, r.note)
		}
	}
}

func missed(results []result) []error {
	var short []error
	for _, r := range results {
		if !r.ok {
			short = append(short, fmt.Errorf("%s: %s, budget %s", r.what, r.measured, r.budget))
		}
	}
	return short
}

// percentile is the p-th part of the durations, which it sorts; 0 for none.
func percentile(durations []time.Duration, p float64) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	slices.SortFunc(durations, cmp.Compare)
	return durations[min(int(p*float64(len(durations))), len(durations)-1)]
}

// ms is a duration as people read it.
func ms(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}
