// Package runtimes is what `arctl runtime` does: it shows a cluster's executors.
package runtimes

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/cli/output"
)

// page is how many AgentRuntimes are asked for at a time.
const page = 500

// List reads all AgentRuntimes.
func List(ctx context.Context, config *rest.Config, client *http.Client) (*v1alpha1.AgentRuntimeList, error) {
	api, err := clientFor(config, client)
	if err != nil {
		return nil, err
	}
	all := &v1alpha1.AgentRuntimeList{TypeMeta: metav1.TypeMeta{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "AgentRuntimeList",
	}}
	next := ""
	for {
		var some v1alpha1.AgentRuntimeList
		err := api.Get().Resource("agentruntimes").
			Param("limit", strconv.Itoa(page)).Param("continue", next).
			Do(ctx).Into(&some)
		if err != nil {
			return nil, fmt.Errorf("list AgentRuntimes: %w", err)
		}
		for i := range some.Items {
			some.Items[i].APIVersion, some.Items[i].Kind = all.APIVersion, "AgentRuntime"
			some.Items[i].ManagedFields = nil
		}
		all.Items = append(all.Items, some.Items...)
		if next = some.Continue; next == "" {
			return all, nil
		}
	}
}

func clientFor(config *rest.Config, client *http.Client) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("build the scheme: %w", err)
	}
	ours := rest.CopyConfig(config)
	ours.GroupVersion = &v1alpha1.GroupVersion
	ours.APIPath = "/apis"
	ours.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	api, err := rest.RESTClientForConfigAndClient(ours, client)
	if err != nil {
		return nil, fmt.Errorf("make a client of AgentRuntimes: %w", err)
	}
	return api, nil
}

// Print writes the runtimes.
func Print(w io.Writer, format output.Format, list *v1alpha1.AgentRuntimeList, now time.Time) error {
	switch format {
	case output.JSON, output.YAML:
		return output.Value(w, format, list)
	case output.Name:
		for i := range list.Items {
			if _, err := fmt.Fprintln(w, "agentruntime.agentruntime.dev/"+list.Items[i].Name); err != nil {
				return err
			}
		}
		return nil
	default:
		return table(w, format, list, now)
	}
}

func table(w io.Writer, format output.Format, list *v1alpha1.AgentRuntimeList, now time.Time) error {
	header := []string{"NAME", "READY", "REASON", "DEFAULT", "RUNNING", "AGE"}
	if format == output.Wide {
		header = append(header, "WAITING", "HELD POLLS", "URL")
	}
	inEffect := v1alpha1.DefaultRuntime(list.Items)
	rows := make([][]string, 0, len(list.Items))
	for i := range list.Items {
		one := &list.Items[i]
		row := row(one, one == inEffect, now)
		if format == output.Wide {
			row = append(row, count(one.Status.WaitingTasks), string(one.Status.HeldPolls), one.Spec.URL)
		}
		rows = append(rows, row)
	}
	return output.Table(w, header, rows)
}

func row(one *v1alpha1.AgentRuntime, isDefault bool, now time.Time) []string {
	ready, reason := "Unknown", ""
	if condition := meta.FindStatusCondition(one.Status.Conditions, v1alpha1.ConditionReady); condition != nil {
		ready, reason = string(condition.Status), condition.Reason
	}
	mark := "no"
	if isDefault {
		mark = "yes"
	}
	running := count(one.Status.RunningTasks) + "/" + strconv.Itoa(int(one.Spec.MaxConcurrentTasks))
	return []string{one.Name, ready, reason, mark, running, output.Age(now, one.CreationTimestamp.Time)}
}

func count(tasks *int32) string {
	if tasks == nil {
		return "?"
	}
	return strconv.Itoa(int(*tasks))
}
