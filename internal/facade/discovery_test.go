package facade

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDiscovery(t *testing.T) {
	f := newFixture(t, aggregated)
	read := func(path string, into any) {
		t.Helper()
		answer := f.do(http.MethodGet, path, "", "Authorization", "")
		if answer.Code != http.StatusOK {
			t.Fatalf("%s is answered %d %s", path, answer.Code, answer.Body)
		}
		if err := json.Unmarshal(answer.Body.Bytes(), into); err != nil {
			t.Fatal(err)
		}
	}
	version := metav1.GroupVersionForDiscovery{GroupVersion: "things.example.com/v1", Version: "v1"}
	wantGroup := metav1.APIGroup{
		Name: "things.example.com", Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	}
	var groups metav1.APIGroupList
	read("/apis", &groups)
	if diff := cmp.Diff(metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{wantGroup},
	}, groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	var group metav1.APIGroup
	read("/apis/things.example.com", &group)
	wantGroup.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
	if diff := cmp.Diff(wantGroup, group); diff != "" {
		t.Errorf("group (-want +got):\n%s", diff)
	}
	var resources metav1.APIResourceList
	read("/apis/things.example.com/v1", &resources)
	if diff := cmp.Diff(metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "things.example.com/v1",
		APIResources: []metav1.APIResource{
			{Name: "things", SingularName: "thing", Namespaced: true, Kind: "Thing", Verbs: metav1.Verbs{"create", "get"}},
			{Name: "things/stop", SingularName: "thing", Namespaced: true, Kind: "Thing", Verbs: metav1.Verbs{"create"}},
		},
	}, resources); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

func TestAggregatedRequests(t *testing.T) {
	const prefix = "/apis/things.example.com/v1/namespaces/team-a"
	tests := map[string]struct {
		method, target string
		header         []string
		wantStatus     int
	}{
		"whom the aggregator speaks for is served":    {"GET", prefix + "/things/1", []string{"X-Remote-User", "ann"}, 200},
		"a token means nothing there":                 {"GET", prefix + "/things/1", nil, 401},
		"and the aggregator's headers nothing here":   {"GET", "/api/v1/things", []string{"Authorization", "", "X-Remote-User", "ann"}, 401},
		"a route that is not aggregated is not there": {"GET", prefix + "/wait", []string{"X-Remote-User", "ann"}, 404},
		"another method is not allowed":               {"PUT", prefix + "/things", []string{"X-Remote-User", "ann"}, 405},
		"there is no document of Kubernetes' form":    {"GET", "/openapi/v3", []string{"Authorization", ""}, 404},
		"nor an older one":                            {"GET", "/openapi/v2", []string{"Authorization", ""}, 404},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			answer := newFixture(t, aggregated).do(test.method, test.target, "", test.header...)
			got := decode(t, answer.Body.Bytes())
			if answer.Code != test.wantStatus {
				t.Fatalf("answered %d %s", answer.Code, answer.Body)
			}
			if answer.Code == http.StatusOK && (!got.Result.Aggregated || got.Result.Namespace != "team-a" || got.Result.User != "ann") {
				t.Errorf("the handler saw %+v", got.Result)
			}
		})
	}
}

func TestDiscoveryNeedsKinds(t *testing.T) {
	config := newFixture(t).config
	aggregated(&config)
	config.Aggregated.Groups[0].Kinds = nil
	if _, err := New(config); err == nil {
		t.Error("New() accepts a resource without a Kind")
	}
}
