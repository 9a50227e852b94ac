package compiletask

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/executor"
)

// Metrics are the controller's metrics. Their labels come from closed sets.
type Metrics struct {
	queueWait *prometheus.HistogramVec
	runTime   *prometheus.HistogramVec
	calls     *prometheus.HistogramVec
	endLag    prometheus.Histogram
	// leading tells that this process runs the controller, so that the tasks are
	// counted once, and their cache is not filled for the sake of a scrape.
	leading *atomic.Bool
}

// Buckets in seconds.
var (
	waitBuckets = []float64{.01, .05, .1, .5, 1, 5, 15, 60, 300, 1800, 7200}
	callBuckets = []float64{.001, .005, .02, .1, .5, 1, 5, 15, 60}
	lagBuckets  = []float64{.001, .005, .01, .025, .05, .1, .5, 1, 5, 30}
)

// NewMetrics makes the metrics and registers them. reader lists CompileTasks from
// a cache when the metrics are scraped.
func NewMetrics(registerer prometheus.Registerer, reader client.Reader) (*Metrics, error) {
	const namespace, subsystem = "agentruntime", "compiletask"
	m := &Metrics{
		queueWait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "queue_wait_seconds", Buckets: waitBuckets,
			Help: "Time from a task's creation to its turn.",
		}, nil),
		runTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "run_seconds", Buckets: waitBuckets,
			Help: "Time from a task's submission to its end, by how it ended.",
		}, []string{"condition"}),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "executor_call_seconds", Buckets: callBuckets,
			Help: "Duration of calls to executors, by operation and outcome; held polls last as long as they are held.",
		}, []string{"operation", "outcome"}),
		endLag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "end_lag_seconds", Buckets: lagBuckets,
			Help: "Time from the executor's end of a task to the answer that told it, where the executor says.",
		}),
	}
	m.leading = &atomic.Bool{}
	phases := newPhaseCollector(reader, m.leading, namespace, subsystem)
	collectors := []prometheus.Collector{m.queueWait, m.runTime, m.calls, m.endLag, phases}
	for _, collector := range collectors {
		if err := registerer.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// leads notes that this process runs the controller.
func (m *Metrics) leads() { m.leading.Store(true) }

// call counts a call to an executor. Calls that this process ended count as such.
func (m *Metrics) call(op operation, err error, took time.Duration) {
	m.calls.WithLabelValues(string(op), outcomeOf(err)).Observe(took.Seconds())
}

func outcomeOf(err error) string {
	code, _ := executor.CodeOf(err)
	switch {
	case err == nil:
		return "ok"
	case code == "":
		return "ended"
	case executor.IsTransient(err):
		return "transient"
	case executor.IsSessionNotFound(err):
		return "not_found"
	default:
		return "permanent"
	}
}

// admitted notes a task's turn, once.
func (m *Metrics) admitted(at *attempt, task *v1alpha1.CompileTask, now time.Time) {
	if at.firstTurn() {
		m.queueWait.WithLabelValues().Observe(now.Sub(task.CreationTimestamp.Time).Seconds())
	}
}

func (m *Metrics) ended(task *v1alpha1.CompileTask, end *ending, now time.Time) {
	if task.Status.StartTime != nil {
		m.runTime.WithLabelValues(end.condition).Observe(now.Sub(task.Status.StartTime.Time).Seconds())
	}
	if end.endLag >= 0 {
		m.endLag.Observe(end.endLag.Seconds())
	}
}

// phaseCollector counts the tasks by phase when it is asked.
type phaseCollector struct {
	reader  client.Reader
	leading *atomic.Bool
	desc    *prometheus.Desc
}

func newPhaseCollector(reader client.Reader, leading *atomic.Bool, namespace, subsystem string) *phaseCollector {
	return &phaseCollector{reader: reader, leading: leading, desc: prometheus.NewDesc(
		prometheus.BuildFQName(namespace, subsystem, "tasks"), "Number of CompileTasks by phase.", []string{"phase"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *phaseCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector.
func (c *phaseCollector) Collect(ch chan<- prometheus.Metric) {
	if !c.leading.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var tasks v1alpha1.CompileTaskList
	if err := c.reader.List(ctx, &tasks, client.UnsafeDisableDeepCopy); err != nil {
		ch <- prometheus.NewInvalidMetric(c.desc, err)
		return
	}
	counts := map[v1alpha1.CompileTaskPhase]int{
		v1alpha1.CompileTaskPending: 0, v1alpha1.CompileTaskRunning: 0, v1alpha1.CompileTaskCancelling: 0,
		v1alpha1.CompileTaskCompleted: 0, v1alpha1.CompileTaskFailed: 0, v1alpha1.CompileTaskCancelled: 0,
	}
	for i := range tasks.Items {
		counts[tasks.Items[i].DerivePhase()]++
	}
	for phase, n := range counts {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(n), string(phase))
	}
}
