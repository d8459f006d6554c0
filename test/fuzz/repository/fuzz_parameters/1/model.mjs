/** Tells what parameters have come: a JSON list of name, type and value, in order of names. */
export function execute(requests) {
  return requests.map(({ inputs, parameters }) => {
    const seen = Object.keys(parameters)
      .sort()
      .map((name) => [name, typeof parameters[name], String(parameters[name])]);
    return {
      outputs: {
        OUTPUT: inputs.get('INPUT'),
        SEEN: { datatype: 'BYTES', shape: [1], data: [Buffer.from(JSON.stringify(seen))] },
      },
    };
  });
}
