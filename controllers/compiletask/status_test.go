package compiletask

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentruntime/operator/api/v1alpha1"
)

func TestChangedAtMovesForward(t *testing.T) {
	at := func(d time.Duration) time.Time { return epoch.Add(d) }
	cases := map[string]struct {
		previous time.Duration
		asked    string
		want     time.Duration
	}{
		"now":                              {previous: -time.Second, want: 0},
		"after the change before":          {previous: time.Second, want: time.Second + time.Microsecond},
		"after a cancel":                   {previous: -time.Second, asked: at(3 * time.Second).Format(time.RFC3339Nano), want: 3*time.Second + time.Microsecond},
		"after a cancel to the nanosecond": {previous: -time.Second, asked: at(3*time.Second + 999).Format(time.RFC3339Nano), want: 3*time.Second + time.Microsecond},
		"after the later of both":          {previous: 4 * time.Second, asked: at(3 * time.Second).Format(time.RFC3339Nano), want: 4*time.Second + time.Microsecond},
		"a cancel that lies behind":        {previous: -time.Second, asked: at(-time.Minute).Format(time.RFC3339Nano), want: 0},
		"in another time zone":             {previous: -time.Second, asked: at(3 * time.Second).In(time.FixedZone("", 3600)).Format(time.RFC3339Nano), want: 3*time.Second + time.Microsecond},
		"at the bound":                     {previous: -time.Second, asked: at(maxAhead).Format(time.RFC3339Nano), want: maxAhead + time.Microsecond},
		"not beyond it":                    {previous: -time.Second, asked: at(maxAhead + time.Second).Format(time.RFC3339Nano), want: 0},
		"no time at all":                   {previous: -time.Second, asked: "soon", want: 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			task := &v1alpha1.CompileTask{Status: v1alpha1.CompileTaskStatus{UpdateTime: &metav1.MicroTime{Time: at(tc.previous)}}}
			if tc.asked != "" {
				task.Annotations = map[string]string{v1alpha1.AnnotationCancelRequestedAt: tc.asked}
			}
			if got := changedAt(task, epoch); !got.Time.Equal(at(tc.want)) {
				t.Errorf("changed at %v, want %v after the epoch", got.Sub(epoch), tc.want)
			}
		})
	}
	if got := changedAt(&v1alpha1.CompileTask{}, epoch); !got.Time.Equal(epoch) {
		t.Errorf("a first change is at %v", got)
	}
}
