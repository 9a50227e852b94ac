package middleware

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Reason is why a request was turned away by a limit.
type Reason string

// The reasons for turning requests away.
const (
	// ReasonRate is a caller who sends too many requests a second.
	ReasonRate Reason = "rate"
	// ReasonInFlight is a caller with too many requests under way.
	ReasonInFlight Reason = "in_flight"
	// ReasonCallers is a caller beyond the number that can be told apart.
	ReasonCallers Reason = "callers"
	// ReasonBodySize is a body larger than its route takes.
	ReasonBodySize Reason = "body_size"
	// ReasonBodyTime is a body that did not arrive in time.
	ReasonBodyTime Reason = "body_time"
	// ReasonBodyMemory is a body beyond the memory for all of them.
	ReasonBodyMemory Reason = "body_memory"
)

// Metrics count requests. Labels are names of routes, status codes that the facade
// itself chooses, and reasons: closed sets all.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	rejected *prometheus.CounterVec
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	const namespace, subsystem = "agentruntime", "facade"
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "requests_total",
			Help: "Requests answered, by route and status code; 499 is a client that did not wait.",
		}, []string{"route", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "request_duration_seconds",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60},
			Help:    "Time that requests took, by route; streams are left out, waits last as long as they are asked to.",
		}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "requests_in_flight",
			Help: "Requests under way, waits and streams included.",
		}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "requests_rejected_total",
			Help: "Requests turned away by a limit, by which one.",
		}, []string{"reason"}),
	}
	for _, collector := range []prometheus.Collector{m.requests, m.duration, m.inFlight, m.rejected} {
		if err := registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

// Reject counts a request that a limit turned away.
func (m *Metrics) Reject(reason Reason) { m.rejected.WithLabelValues(string(reason)).Inc() }

// Observe counts the requests of a route.
func (m *Metrics) Observe(route string, stream bool) Middleware {
	requests := m.requests.MustCurryWith(prometheus.Labels{"route": route})
	var duration prometheus.Observer
	if !stream {
		duration = m.duration.WithLabelValues(route)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			begin, out := time.Now(), exchangeOf(r.Context()).out
			m.inFlight.Inc()
			// Deferred, for an answer that is broken off counts too.
			defer func() {
				m.inFlight.Dec()
				if duration != nil {
					duration.Observe(time.Since(begin).Seconds())
				}
				requests.WithLabelValues(strconv.Itoa(out.code())).Inc()
			}()
			next.ServeHTTP(w, r)
		})
	}
}
