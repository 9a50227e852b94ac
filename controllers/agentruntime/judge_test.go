package agentruntime

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/executor"
	"github.com/agentruntime/operator/internal/executor/registry"
)

func TestJudgeNamesTheSecretThatCannotBeRead(t *testing.T) {
	cause := fmt.Errorf("read Secret operator/gateway: %w: not found", registry.ErrTokenUnavailable)
	client, err := executor.NewHTTP(executor.HTTPConfig{
		BaseURL:      "http://127.0.0.1:1",
		GatewayToken: func(context.Context) (string, error) { return "", cause },
	})
	if err != nil {
		t.Fatalf("NewHTTP: %v", err)
	}
	t.Cleanup(client.Close)
	_, probeErr := client.Probe(t.Context())
	for name, err := range map[string]error{"the probe's error": probeErr, "the cause alone": cause} {
		status, reason, message := judge(err)
		if status != metav1.ConditionFalse || reason != v1alpha1.ReasonGatewayTokenUnavailable ||
			!strings.Contains(message, "can't be read: read Secret operator/gateway: ") {
			t.Errorf("%s: %s/%s: %s", name, status, reason, message)
		}
	}
}
