package server

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentruntime/operator/internal/runtimeapi"
)

// Outcomes, the label values of the counters.
const (
	outcomeCreated         = "created"
	outcomeReplayed        = "replayed"
	outcomeInvalid         = "invalid"
	outcomeUnauthenticated = "unauthenticated"
	outcomeDenied          = "denied"
	outcomeExhausted       = "exhausted"
	outcomeUnavailable     = "unavailable"
	outcomeError           = "error"
	// These are of file requests alone.
	outcomeOK       = "ok"
	outcomeNotFound = "not_found"
)

// Metrics are the server's own numbers. Label values come from closed sets:
// never a user, a session or an error text.
type Metrics struct {
	registry   prometheus.Registerer
	creates    *prometheus.CounterVec
	finished   *prometheus.CounterVec
	queueWait  prometheus.Histogram
	runSeconds *prometheus.HistogramVec
	stuck      prometheus.Counter
	files      *prometheus.CounterVec
}

var secondsBuckets = []float64{0.01, 0.05, 0.25, 1, 5, 15, 60, 300, 900, 3600}

// NewMetrics makes the metrics and registers them; a nil registry keeps them
// unseen. One registry takes the metrics of one server.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	if registry == nil {
		registry = prometheus.NewRegistry()
	}
	m := &Metrics{
		registry: registry,
		creates: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentruntime_runtime_creates_total",
			Help: "Create requests by outcome.",
		}, []string{"outcome"}),
		finished: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentruntime_runtime_sessions_finished_total",
			Help: "Sessions that ended, by status.",
		}, []string{"status"}),
		queueWait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "agentruntime_runtime_queue_wait_seconds",
			Help:    "Time from admission to the start of a run.",
			Buckets: secondsBuckets,
		}),
		runSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "agentruntime_runtime_run_seconds",
			Help:    "Time from the start of a run to its end, by the status it ended with.",
			Buckets: secondsBuckets,
		}, []string{"status"}),
		stuck: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "agentruntime_runtime_stuck_runs_total",
			Help: "Runs that did not stop within the cleanup grace after their time was up.",
		}),
		files: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentruntime_runtime_file_requests_total",
			Help: "Requests of the file API by operation (stat, ls, read) and outcome.",
		}, []string{"operation", "outcome"}),
	}
	registry.MustRegister(m.creates, m.finished, m.queueWait, m.runSeconds, m.stuck, m.files)
	return m
}

// observe adds the gauges that a manager's state answers.
func (m *Metrics) observe(mgr *manager) {
	for _, s := range []runtimeapi.Status{
		runtimeapi.StatusPending, runtimeapi.StatusRunning, runtimeapi.StatusCancelling,
	} {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "agentruntime_runtime_sessions",
			Help:        "Sessions that have not ended, by status.",
			ConstLabels: prometheus.Labels{"status": string(s)},
		}, func() float64 { return float64(mgr.counts()[s]) }))
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "agentruntime_runtime_held_polls",
		Help: "Status requests being held.",
	}, func() float64 { return float64(mgr.heldPolls()) }))
}

// countCreate counts a create by what came of it.
func (m *Metrics) countCreate(replayed bool, err error) {
	outcome := outcomeCreated
	switch {
	case err != nil:
		outcome = outcomeOf(asHTTPError(err))
	case replayed:
		outcome = outcomeReplayed
	}
	m.creates.WithLabelValues(outcome).Inc()
}

// countFile counts a request of the file API by what came of it.
func (m *Metrics) countFile(operation string, err error) {
	outcome := outcomeOK
	if err != nil {
		told := fileError(err)
		outcome = outcomeOf(told)
		if told.body.Code == runtimeapi.CodeNotFound {
			outcome = outcomeNotFound
		}
	}
	m.files.WithLabelValues(operation, outcome).Inc()
}

func outcomeOf(e *httpError) string {
	if e.status == http.StatusTooManyRequests {
		return outcomeExhausted
	}
	switch e.body.Code {
	case runtimeapi.CodeUnauthenticated:
		return outcomeUnauthenticated
	case runtimeapi.CodePermissionDenied:
		return outcomeDenied
	case runtimeapi.CodeUnavailable, runtimeapi.CodeDeadlineExceeded:
		return outcomeUnavailable
	}
	if e.status != 0 || httpStatus(e.body.Code) < 500 {
		return outcomeInvalid
	}
	return outcomeError
}
