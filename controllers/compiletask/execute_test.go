package compiletask

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentruntime/operator/api/v1alpha1"
)

func TestRequestIDOf(t *testing.T) {
	for annotation, want := range map[string]string{
		"":                        "",
		"req-1:a.b_c":             "req-1:a.b_c",
		"a\nb":                    "",
		"with a space":            "",
		"größe":                   "",
		string(make([]byte, 129)): "",
	} {
		task := &v1alpha1.CompileTask{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationRequestID: annotation}}}
		if got := requestIDOf(task); got != want {
			t.Errorf("request id of %q is %q, want %q", annotation, got, want)
		}
	}
}
