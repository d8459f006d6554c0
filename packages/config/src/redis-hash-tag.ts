/** Whether a --redis-url names a Redis Cluster: several hosts, but no Sentinel. */
export function isClusterUrl(url: string): boolean {
  return /^rediss?:\/\/(?:[^/?]*@)?[^/?@]*,/.test(url);
}

/** Whether keys of that prefix have a hash tag: a Cluster keeps in one node what has the same text in braces. */
export function hasHashTag(prefix: string): boolean {
  return /\{[^}]+\}/.test(prefix);
}
