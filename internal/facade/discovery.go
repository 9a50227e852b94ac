package facade

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
)

const (
	discoveryPrefix = "/apis"
	verbGet         = "get"
	verbCreate      = "create"
)

// addAggregated mounts a group's routes and its discovery. Discovery is open: it is
// the same for all, and the aggregator asks for it as a user that is served nothing
// else.
func (m mounts) addAggregated(aggregated *Aggregated) error {
	if aggregated == nil {
		return nil
	}
	discovery, err := discoveryRoutes(aggregated.Groups)
	if err != nil {
		return err
	}
	for _, route := range discovery {
		if err := m.add(route.Path, route, true); err != nil {
			return err
		}
	}
	for _, group := range aggregated.Groups {
		prefix := discoveryPrefix + "/" + group.Name + "/" + group.Version + namespacePrefix
		for _, route := range group.Routes {
			if route.Aggregated == "" {
				continue
			}
			if err := m.add(prefix+route.Aggregated, route, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// discoveryRoutes describe the groups as an API server does.
func discoveryRoutes(groups []Group) ([]httpapi.Route, error) {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	documents := map[string]any{}
	for _, group := range groups {
		resources, err := resourcesOf(group)
		if err != nil {
			return nil, err
		}
		described := describe(group)
		list.Groups = append(list.Groups, described)
		described.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		documents[discoveryPrefix+"/"+group.Name] = described
		documents[discoveryPrefix+"/"+group.Name+"/"+group.Version] = metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: group.Name + "/" + group.Version, APIResources: resources,
		}
	}
	documents[discoveryPrefix] = list
	routes := []httpapi.Route{noOpenAPI("/openapi/v2"), noOpenAPI("/openapi/v3")}
	for path, document := range documents {
		body, err := json.Marshal(document)
		if err != nil {
			return nil, fmt.Errorf("encode discovery of %s: %w", path, err)
		}
		routes = append(routes, open("discovery", path, plain(string(body))))
	}
	return routes, nil
}

// noOpenAPI tells the aggregator that there is no document in the form of Kubernetes,
// which it takes for an answer, and what is asked instead.
func noOpenAPI(path string) httpapi.Route {
	return open("discovery.openapi", path, func(http.ResponseWriter, *http.Request) error {
		return wire.NotFound("There is no such document; see /openapi.json", path, "document")
	})
}

func describe(group Group) metav1.APIGroup {
	version := metav1.GroupVersionForDiscovery{GroupVersion: group.Name + "/" + group.Version, Version: group.Version}
	return metav1.APIGroup{
		Name: group.Name, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	}
}

// resourcesOf reads the resources off the paths of a group's routes, as RBAC reads
// them: /tasks/{task_id}/cancel is tasks/cancel. Only get and create are listed:
// namespace deletion and garbage collection leave alone what can't be listed or
// deleted, and nothing here needs them, for tasks are CompileTasks too.
func resourcesOf(group Group) ([]metav1.APIResource, error) {
	verbs := map[string][]string{}
	for _, route := range group.Routes {
		if route.Aggregated == "" {
			continue
		}
		name, verb := resourceName(route.Aggregated), verbGet
		if route.Method == http.MethodPost {
			verb = verbCreate
		}
		if !slices.Contains(verbs[name], verb) {
			verbs[name] = append(verbs[name], verb)
		}
	}
	resources := make([]metav1.APIResource, 0, len(verbs))
	for name, has := range verbs {
		resource, _, _ := strings.Cut(name, "/")
		kind, ok := group.Kinds[resource]
		if !ok {
			return nil, fmt.Errorf("describe group %s: no Kind for resource %q", group.Name, resource)
		}
		slices.Sort(has)
		resources = append(resources, metav1.APIResource{
			Name: name, SingularName: strings.ToLower(kind), Namespaced: true, Kind: kind, Verbs: has,
		})
	}
	slices.SortFunc(resources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	return resources, nil
}

// resourceName is the first segment of a path, and the third where there is one.
func resourceName(path string) string {
	const subresourcePlace = 2
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if len(segments) <= subresourcePlace {
		return segments[0]
	}
	return segments[0] + "/" + segments[subresourcePlace]
}
