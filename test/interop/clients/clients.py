"""Does with the official clients for Python what clients.ts does with those for Node. Reads a target, prints a JSON object of what each point gave."""
import json
import sys

import anthropic
import openai

target = json.load(sys.stdin)
sent = 0
on_refused = lambda: None


def count(_request):
    global sent
    sent += 1


def watch(response):
    if response.status_code == 429:
        on_refused()


def counting(module):
    return module.DefaultHttpxClient(event_hooks={"request": [count], "response": [watch]})


def openai_client(key=target["key"], url=target["chat"], retries=2):
    return openai.OpenAI(
        base_url=url + "/v1", api_key=key, max_retries=retries, http_client=counting(openai)
    )


def anthropic_client(key=target["key"]):
    return anthropic.Anthropic(
        base_url=target["chat"], api_key=key, max_retries=2, http_client=counting(anthropic)
    )


MESSAGES = [{"role": "user", "content": "Hi"}]
SAME = {"temperature": 0, "seed": 1}
SCHEMA = {
    "type": "object",
    "properties": {"color": {"enum": ["red", "blue"]}},
    "required": ["color"],
    "additionalProperties": False,
}
CHAT = {"model": target["model"], "messages": MESSAGES, "max_tokens": 8, **SAME}
# This client has no argument for the temperature.
MESSAGE = {
    "model": target["model"],
    "messages": MESSAGES,
    "max_tokens": 8,
    "extra_body": {"temperature": 0},
}


def lists():
    return target["model"] in [one.id for one in openai_client().models.list()]


def retrieves():
    return openai_client().models.retrieve(target["model"]).id


def chats():
    answer = openai_client().chat.completions.create(**CHAT)
    return [answer.choices[0].message.content, answer.usage.completion_tokens]


def streams():
    text, tokens = "", None
    for part in openai_client().chat.completions.create(
        **CHAT, stream=True, stream_options={"include_usage": True}
    ):
        text += "".join(choice.delta.content or "" for choice in part.choices)
        tokens = part.usage.completion_tokens if part.usage else tokens
    return [text, tokens]


def sends_tools():
    """A random model calls no tool, so its earlier call is given."""
    function = {"name": "paint", "arguments": json.dumps({"color": "red"})}
    called = {"id": "call-1", "type": "function", "function": function}
    messages = [
        *MESSAGES,
        {"role": "assistant", "content": "", "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "call-1", "content": "done"},
    ]
    tool = {"type": "function", "function": {"name": "paint", "parameters": SCHEMA}}
    answer = openai_client().chat.completions.create(
        **{**CHAT, "messages": messages}, tools=[tool], tool_choice="auto"
    )
    return [answer.choices[0].finish_reason, answer.choices[0].message.content]


def keeps_schema():
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
    answer = openai_client().chat.completions.create(
        **{**CHAT, "max_tokens": 200}, response_format=form
    )
    return list(json.loads(answer.choices[0].message.content))


def responds():
    ask = {"model": target["model"], "input": "Hi", "max_output_tokens": 8, "temperature": 0}
    answer = openai_client().responses.create(**ask)
    events = [event.type for event in openai_client().responses.create(**ask, stream=True)]
    return [answer.output_text, events[0], events[-1]]


def cannot_stream_responses():
    """A point that fails here is a llama-server that does more: change docs/gateway.md."""
    ask = {"model": target["model"], "input": "Hi", "max_output_tokens": 8}
    try:
        with openai_client().responses.stream(**ask) as stream:
            stream.get_final_response()
    except TypeError as error:
        if str(error) == "list indices must be integers or slices, not NoneType":
            return True
        raise
    raise AssertionError("it can now")


def embeds():
    answer = openai_client(url=target["embedding"]).embeddings.create(model="embed", input=["a", "b"])
    return [len(answer.data), len(answer.data[0].embedding)]


def reranks():
    body = {"model": "rank", "query": "sea", "documents": ["a ship", "a tree"], "top_n": 1}
    answer = openai_client(url=target["rerank"]).post("/rerank", body=body, cast_to=object)
    return [list(answer["results"][0]), len(answer["results"])]


def sends_message():
    answer = anthropic_client().messages.create(**MESSAGE)
    return [answer.content[0].text, answer.usage.output_tokens, answer.stop_reason]


def streams_message():
    with anthropic_client().messages.stream(**MESSAGE) as stream:
        text = "".join(stream.text_stream)
        return [text, stream.get_final_message().usage.output_tokens]


def sends_tools_with_message():
    messages = [
        *MESSAGES,
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "call-1", "name": "paint", "input": {"color": "red"}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "call-1", "content": "done"}],
        },
    ]
    tool = {"name": "paint", "description": "Paints.", "input_schema": SCHEMA}
    answer = anthropic_client().messages.create(
        **{**MESSAGE, "messages": messages}, tools=[tool], tool_choice={"type": "auto"}
    )
    return [answer.stop_reason, answer.content[0].text]


def counts_tokens():
    counted = anthropic_client().messages.count_tokens(model=target["model"], messages=MESSAGES)
    return counted.input_tokens > 0


def failure(work):
    """Name, status and number of requests: what a client must not repeat is sent once."""
    global sent
    sent = 0
    try:
        work()
    except (openai.APIStatusError, anthropic.APIStatusError) as error:
        return [type(error).__name__, error.status_code, sent]
    return ["answered", 200, sent]


def refuses_model():
    return [
        failure(lambda: openai_client().chat.completions.create(**{**CHAT, "model": "absent"})),
        failure(lambda: anthropic_client().messages.create(**{**MESSAGE, "model": "absent"})),
    ]


def refuses_key():
    return [
        failure(lambda: openai_client("wrong").chat.completions.create(**CHAT)),
        failure(lambda: anthropic_client("wrong").messages.create(**MESSAGE)),
    ]


def refuses_request():
    return [
        failure(lambda: openai_client().chat.completions.create(**{**CHAT, "messages": "x"})),
        failure(lambda: anthropic_client().messages.create(**{**MESSAGE, "messages": "x"})),
    ]


def refuses_length():
    long = [{"role": "user", "content": "sea " * 20000}]
    return failure(lambda: openai_client().chat.completions.create(**{**CHAT, "messages": long}))


def retries():
    """A key with one request at a time: the second is refused until the first has finished."""
    global sent, on_refused
    if "oneKey" not in target:
        return "no limits"
    client = openai_client(target["oneKey"], retries=8)
    stream = client.chat.completions.create(**{**CHAT, "max_tokens": 6000}, stream=True)
    next(iter(stream))
    on_refused = stream.close
    sent = 0
    answer = client.chat.completions.create(**CHAT)
    return [answer.usage.completion_tokens, sent > 1]


def cancels():
    stream = openai_client().chat.completions.create(**{**CHAT, "max_tokens": 6000}, stream=True)
    next(iter(stream))
    stream.close()
    # The service has one slot.
    answer = openai_client(retries=0).with_options(timeout=10).chat.completions.create(**CHAT)
    return answer.usage.completion_tokens


POINTS = {
    "lists models": lists,
    "retrieves a model": retrieves,
    "chats": chats,
    "streams a chat": streams,
    "sends tools, a call and its result": sends_tools,
    "answers by a JSON schema": keeps_schema,
    "responds, whole and streamed": responds,
    "cannot use the stream helper of responses": cannot_stream_responses,
    "embeds": embeds,
    "reranks": reranks,
    "sends a message": sends_message,
    "streams a message": streams_message,
    "sends tools, a call and its result with messages": sends_tools_with_message,
    "counts the tokens of a message": counts_tokens,
    "reports an unknown model, without a retry": refuses_model,
    "reports a wrong key, without a retry": refuses_key,
    "reports an invalid request, without a retry": refuses_request,
    "reports a prompt that is too long, without a retry": refuses_length,
    "retries a request over a limit until it is answered": retries,
    "cancels a stream, and the slot is free": cancels,
}

results = {}
for name, point in POINTS.items():
    try:
        results[name] = point()
    except Exception as error:
        results[name] = f"{type(error).__name__}: {error}"[:300]
print(json.dumps(results))
