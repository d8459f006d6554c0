/** Lines of a body that are not empty, each as soon as it is whole. Leaving the loop cancels the body. */
export async function* textLines(body: ReadableStream<Uint8Array>): AsyncGenerator<string, void, void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let held: string[] = [];
  try {
    while (true) {
      const { done, value } = await reader.read();
      if (done) return;
      const [first = '', ...others] = decoder.decode(value, { stream: true }).split('\n');
      held.push(first);
      for (const next of others) {
        const line = held.join('');
        held = [next];
        if (line !== '') yield line;
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
