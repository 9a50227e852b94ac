// Package frontproxy says who sent a request that the API server's aggregator passed
// on. The aggregator names the user in X-Remote headers, which anybody can send, so
// they count only beside the aggregator's client certificate. Which certificate and
// which headers that is stands in a ConfigMap that the API server keeps; it is
// followed, for certificates are rotated.
package frontproxy
