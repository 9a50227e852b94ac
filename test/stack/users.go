package stack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// User is a user of the API server, with a client certificate.
type User struct {
	Name string
	// Config connects as the user; Kubeconfig is the path of a file that does.
	Config     *rest.Config
	Kubeconfig string
}

// AddUser makes a user of the API server, in the groups given and
// system:authenticated.
func (s *Stack) AddUser(_ context.Context, name string, groups ...string) (*User, error) {
	user, err := s.plane.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	if err != nil {
		return nil, fmt.Errorf("make the user %s: %w", name, err)
	}
	data, err := user.KubeConfig()
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig of %s: %w", name, err)
	}
	path := filepath.Join(s.Dir, name+".kubeconfig")
	config := user.Config()
	config.QPS = -1
	return &User{Name: name, Config: config, Kubeconfig: path}, os.WriteFile(path, data, 0o600)
}

// UseNamespace makes a namespace the one that the user's kubeconfig names.
func (u *User) UseNamespace(namespace string) error {
	config, err := clientcmd.LoadFromFile(u.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig of %s: %w", u.Name, err)
	}
	for _, context := range config.Contexts {
		context.Namespace = namespace
	}
	return clientcmd.WriteToFile(*config, u.Kubeconfig)
}

// AddNamespace makes a namespace.
func (s *Stack) AddNamespace(ctx context.Context, name string) error {
	if err := s.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return fmt.Errorf("make the namespace %s: %w", name, err)
	}
	return nil
}

// Bind gives a subject ClusterRoles within a namespace.
func (s *Stack) Bind(ctx context.Context, namespace string, subject rbacv1.Subject, roles ...string) error {
	for _, role := range roles {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: subject.Name + "-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{subject},
		}
		if err := s.Client.Create(ctx, binding); err != nil {
			return fmt.Errorf("bind %s to %s: %w", subject.Name, role, err)
		}
	}
	return nil
}

// UserSubject is a user as a subject of a binding.
func UserSubject(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

// AccountSubject is a ServiceAccount as a subject of a binding.
func AccountSubject(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

// AddServiceAccount makes a ServiceAccount.
func (s *Stack) AddServiceAccount(ctx context.Context, namespace, name string) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := s.Client.Create(ctx, account); err != nil {
		return fmt.Errorf("make the ServiceAccount %s: %w", name, err)
	}
	return nil
}

// ServiceAccountToken makes a token of a ServiceAccount, for the API server when
// no audience is given.
func (s *Stack) ServiceAccountToken(ctx context.Context, namespace, name string, audiences ...string) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	if err := s.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("create a token of ServiceAccount %s: %w", name, err)
	}
	return request.Status.Token, nil
}

// TokenKubeconfig writes a kubeconfig that holds a token, and returns its path.
func (s *Stack) TokenKubeconfig(name, token string) (string, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["stack"] = &clientcmdapi.Cluster{Server: s.Config.Host, CertificateAuthorityData: s.Config.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["stack"] = &clientcmdapi.Context{Cluster: "stack", AuthInfo: name}
	config.CurrentContext = "stack"
	path := filepath.Join(s.Dir, name+".kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// Sample puts the sample documents and the sample Skill where the executor finds
// them: viking://resources/docs and viking://agent/skills/llm-wiki of a namespace.
func (s *Stack) Sample(namespace string) error {
	samples := filepath.Join(s.root, "config", "samples")
	if err := s.Place(filepath.Join(samples, "corpus"), namespace, "resources", "docs"); err != nil {
		return err
	}
	return s.Place(filepath.Join(samples, "skills", "llm-wiki"), namespace, "agent", "skills", "llm-wiki")
}

// Place copies a folder to a place below a namespace's content.
func (s *Stack) Place(from, namespace string, place ...string) error {
	return copyFolder(from, filepath.Join(append([]string{s.Content, namespace}, place...)...))
}

// trusting makes a client that trusts an authority, and nobody else.
func trusting(authority []byte) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 256,
	}}
}
