# frozen_string_literal: true

# The same lock on a single Redis, on a node of a cluster, and on a primary that sentinels name. The
# lock on the cluster is compared with the lock on the single Redis. A store whose URL lists the
# sentinels is compared with a store whose URL names the same primary directly. The floor also runs
# on a node of the cluster, and shows how much slower Redis itself is on such a node.
{
  "floor" => ["the floor on one Redis", :floor],
  "floor-cluster" => ["the floor on a node of a cluster", :peer]
}.each do |name, (label, role)|
  Bench.contestant "topology-#{name}",
                   label: label, role: role, family: :topologies, transport: :floor,
                   floor: ->(address) { ["tcp", JSON.parse(File.read(address.socket)).fetch(name)] }
end

{
  "single" => ["one Redis", :floor, :cluster],
  "cluster" => ["a node of a cluster", :plock, :cluster],
  "primary" => ["a primary with two replicas", :floor, :sentinel],
  "sentinel" => ["the same by its sentinels", :plock, :sentinel]
}.each do |topology, (label, role, reference)|
  name = "topology-#{topology}"
  open = ->(server) do
    require "plock"

    urls = JSON.parse(File.read(server.socket))
    Plock::Store.open(urls.fetch(topology), secret: Bench::SECRET)
  end
  Bench.contestant name,
                   label: label, role: role, family: :topologies, transport: reference do |server|
    store = open.call(server)
    -> { store.acquire("bench:topology", ttl: Bench::TTL) { :held } }
  end
  Bench.contender name do |server|
    store = open.call(server)
    -> do
      ->(key, section) { store.acquire(key, ttl: Bench::TTL, wait: Bench::WAIT, &section) }
    end
  end
end
