/** `port`, with these methods in place of its own: a method that it gets later needs no word here. */
export const decorate = <Port extends object>(port: Port, methods: Partial<Port>): Port => {
  const bound = new Map<PropertyKey, unknown>();
  return new Proxy(port, {
    get: (target, name): unknown => {
      const own: unknown = Reflect.get(methods, name) ?? bound.get(name);
      if (own !== undefined) return own;
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== 'function') return member;
      const method: unknown = member.bind(target);
      bound.set(name, method);
      return method;
    },
  });
};
