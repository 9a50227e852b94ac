package compiletask

import (
	"strings"
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

func TestTraceParentOf(t *testing.T) {
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for given, want := range map[string]string{
		"":                                 "",
		"00-" + trace + "-" + span + "-01": "00-" + trace + "-" + span + "-01",
		"cc-" + trace + "-" + span + "-00": "cc-" + trace + "-" + span + "-00",
		"ff-" + trace + "-" + span + "-01": "",
		"00-" + strings.Repeat("0", 32) + "-" + span + "-01":  "",
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01": "",
		"00-" + strings.ToUpper(trace) + "-" + span + "-01":   "",
		"00-" + trace + "-" + span + "-01\r\nX-API-Key: x":    "",
		"00-" + trace + "-" + span + "-01-more":               "",
	} {
		task := &v1alpha1.CompileTask{Spec: v1alpha1.CompileTaskSpec{RESTRequest: &v1alpha1.RESTRequest{TraceParent: given}}}
		if got := traceParentOf(task); got != want {
			t.Errorf("trace parent of %q is %q, want %q", given, got, want)
		}
	}
	if got := traceParentOf(&v1alpha1.CompileTask{}); got != "" {
		t.Errorf("a task of kubectl's has %q", got)
	}
}
