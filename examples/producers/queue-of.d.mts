export function queueOf(
  url: string,
  model: string,
): Promise<{ name: string; prefix: string; connection: { path: string } | { url: string } }>;
