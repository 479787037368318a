# frozen_string_literal: true

require "spec_helper"

# The process that has waited longest is served next, even if the holder, other waiters or
# connections fail.
RSpec.describe "The order among processes" do
  waiters = 12
  let(:server) { redis_server }
  let(:key) { unique_key }
  let(:store) { open_store(server.url, **Support::Examples::PATIENT) }

  def take(ttl: 30, renew: false) = store.acquire(key, ttl: ttl, renew: renew)

  def queued = store.status(key).waiters

  # Starts waiters, each in its own process. Each is in the queue before the next one starts. They
  # report the moment when they acquire the lock.
  def line_up(count) = line_up_behind(0, count)

  def line_up_behind(others, count)
    Array.new(count) do |number|
      waiter = child do |parent|
        store = Plock::Store.open(server.url, **Support::Examples::PATIENT)
        lease = store.acquire(key, ttl: 5, wait: 25)
        entered = [monotonic, lease.fence]
        lease.release
        parent.tell(entered)
        entered
      end
      eventually(20, "a waiter is not in line") { queued.size == others + number + 1 }
      waiter
    end
  end

  # The waiters' numbers, in the order in which they were served.
  def served(line, except: [])
    told =
      line
        .each_with_index
        .reject { |_, number| except.include?(number) }
        .map { |waiter, number| [*waiter.hear(within: 20), number] }
    expect(told.map { |_, fence, _| fence }).to all(be_an(Integer))
    expect(told.sort.map { |_, fence, _| fence }).to eq(told.map { |_, fence, _| fence }.sort)
    told.sort.map(&:last)
  end

  it "is that of their arrival when the holder releases" do
    holder = take
    line = line_up(waiters)
    holder.release
    expect(served(line)).to eq [*0...waiters]
  end

  it "survives renewals" do
    holder = take(ttl: 2.0, renew: true)
    line = line_up(waiters)
    3.times do
      reached = holder.valid_until
      eventually { holder.valid_until > reached }
    end
    holder.release
    expect(served(line)).to eq [*0...waiters]
  end

  it "survives a holder that is killed" do
    [server, key] # made before any fork, so that all processes use the same ones
    holder = child do |parent|
      lease = Plock::Store.open(server.url, **Support::Examples::PATIENT).acquire(key, ttl: 60)
      parent.tell(:held)
      parent.hear
      lease.extend(ttl: 3) # long, because a busy machine may need time to line them up
      parent.tell(:extended)
      parent.hear
      lease # without this reference, the lease would be collected and released
    end
    expect(holder.hear).to eq :held
    line = line_up(waiters)
    holder.tell(:extend)
    expect(holder.hear).to eq :extended
    holder.signal(:KILL)
    expect(served(line)).to eq [*0...waiters]
  end

  it "survives waiters that are killed, the first among them" do
    holder = take
    line = line_up(waiters)
    gone = [0, 1, 5, 11]
    gone.each { |number| line[number].signal(:KILL) && line[number].wait }
    holder.release
    expect(served(line, except: gone)).to eq [*0...waiters] - gone
    expect(queued).to be_empty
  end

  it "survives all subscriptions being cut" do
    holder = take
    line = line_up(waiters)
    before = queued
    server.call("CLIENT", "KILL", "TYPE", "pubsub")
    eventually { server.call("PUBSUB", "CHANNELS", "plock:1:wake:*").size == waiters }
    expect(queued).to eq before
    holder.release
    expect(served(line)).to eq [*0...waiters]
  end

  it "survives all connections being cut" do
    holder = take
    line = line_up(waiters)
    server.call("CLIENT", "KILL", "SKIPME", "yes", "TYPE", "normal")
    server.call("CLIENT", "KILL", "TYPE", "pubsub")
    eventually { server.call("PUBSUB", "CHANNELS", "plock:1:wake:*").size == waiters }
    holder.release
    expect(served(line)).to eq [*0...waiters]
  end

  # The server may close the connection on which a waiter has asked, because the connection is idle
  # or an operator kills it. Then the waiter claims its turn through another connection.
  { plain: {}, tls: { ca_file: Support::Certificates.ca.cert_file } }.each do |kind, options|
    [0, 0.05].each do |pause|
      milliseconds = (pause * 1000).round

      it "survives the first waiter's disconnect #{milliseconds} ms before its turn (#{kind})" do
        server = redis_server(kind)
        holder, *others = Array.new(3) { open_store(server.url, **options) }
        lease = holder.acquire(key, ttl: 30)
        clients = -> { server.call("CLIENT", "LIST", "TYPE", "normal").scan(/^id=(\d+)/).flatten }
        before = clients.call
        served = Queue.new
        others.each_with_index do |store, number|
          background { store.acquire(key, ttl: 5, wait: 20) { served << number } }
          eventually { holder.status(key).waiters.size == number + 1 }
          (clients.call - before).each { |id| @first ||= id }
        end
        server.call("CLIENT", "KILL", "ID", @first)
        sleep(pause)
        lease.release
        expect([served.pop, served.pop]).to eq([0, 1])
      end
    end
  end

  %i[request reply].each do |way|
    it "serves one waiter before the first if the #{way} of its claim is lost, then the first",
       :alone do
      gate = proxy(server)
      holder = open_store(server.url)
      waiting = open_store(gate.url)
      waiting.acquire(unique_key) { nil } # loads its scripts on the server
      lease = holder.acquire(key, ttl: 30)
      served = Queue.new
      4.times do |number|
        background do
          waiting.acquire(key, ttl: 5, wait: 20) do
            served << number
            # waits until the first waiter is back in the queue
            eventually { holder.status(key).waiters.size == 3 } if number == 1
          end
        end
        eventually { holder.status(key).waiters.size == number + 1 }
      end
      gate.cut(way, connections: 1)
      lease.release
      expect(Array.new(4) { served.pop }).to eq([1, 0, 2, 3])
    end
  end

  # The channel belongs to the process, so the others wait in processes of their own.
  it "serves others before a waiter whose connection is away, which then has its old place" do
    gate = proxy(server)
    away = open_store(gate.url)
    holder = take
    first = background { away.acquire(key, ttl: 5, wait: 20, &:fence) }
    eventually { queued.size == 1 }
    second = child do |parent|
      Plock::Store.open(server.url).acquire(key, ttl: 20, wait: 20) do |lease|
        parent.tell(lease.fence)
        parent.hear
      end
    end
    eventually(20) { queued.size == 2 }
    third = line_up_behind(2, 1).first
    gate.refuse
    gate.disconnect
    eventually { server.call("PUBSUB", "CHANNELS", "plock:1:wake:*").size == 2 }
    holder.release
    fences = [second.hear(within: 10)]
    gate.forward
    eventually(10) { queued.size == 2 }
    second.tell(:release)
    fences.push(first.value, third.hear(within: 10)[1])
    expect(fences).to eq(fences.sort)
  end

  it "passes over two frozen waiters of one process after two seconds", :timing, :slow do
    [server, key]
    holder = take
    frozen = child do
      store = Plock::Store.open(server.url, **Support::Examples::PATIENT)
      Array.new(2) { Thread.new { store.acquire(key, ttl: 5, wait: 25) { nil } } }.each(&:join).size
    end
    eventually(20, "they are not in line") { queued.size == 2 }
    line = line_up_behind(2, 1)
    frozen.signal(:STOP)
    Process.wait(frozen.pid, Process::WUNTRACED)
    start = monotonic
    holder.release
    expect(line.first.hear(within: 15)[0] - start).to be_between(1.8, 4.0)
    frozen.signal(:CONT)
    frozen.result
  end

  it "passes over a frozen waiter after a second", :timing do
    holder = take
    line = line_up(3)
    line.first.signal(:STOP)
    Process.wait(line.first.pid, Process::WUNTRACED) # otherwise, it could still take its turn
    start = monotonic
    holder.release
    expect(line[1].hear(within: 10)[0] - start).to be_between(0.9, 3.0)
    line[2].hear
    line.first.signal(:CONT)
    expect(line.first.hear(within: 10)[1]).to be_an(Integer)
  end
end
