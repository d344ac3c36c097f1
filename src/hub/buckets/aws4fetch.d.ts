/** Names of the DOM that the types of aws4fetch need, and Node has under other ones. */
type HeadersInit = NonNullable<RequestInit["headers"]>;
type BodyInit = NonNullable<RequestInit["body"]>;
