"""The sheets of a broker's account, by its kind."""

from penstock.insight.account import account_list
from penstock.insight.answers import AccountList, AccountSheet
from penstock.insight.explain import BrokerView, NotFound
from penstock.insight.openmq_account import openmq_account_list


def sheets(view: BrokerView, name: str) -> AccountList:
    """Of the queues and addresses of this name; of all with losses when empty. NotFound: there is none."""
    account, queues = view.state.judgement.openmq_account, view.snapshot.queues
    if queues is not None and account.watched and account.queues.index is queues.index:
        return openmq_account_list(view, queues, name)
    return account_list(view, name)


def sheets_of(view: BrokerView, address: str, queue: str) -> list[AccountSheet]:
    """Of one queue, and of its address; empty where there is no account."""
    try:
        found = [one for name in dict.fromkeys((queue, address)) for one in sheets(view, name).rows]
    except NotFound:
        return []
    ours = [one for one in found if one.address == address]
    return [one for one in ours if one.queue == queue][:1] + [one for one in ours if not one.queue][:1]
