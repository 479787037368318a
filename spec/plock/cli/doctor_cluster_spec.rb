# frozen_string_literal: true

require "spec_helper"
require "plock/cli/doctor/cluster"

# The nodes' answers are handwritten here. spec/plock/cluster/command_line_spec.rb tests real
# answers.
RSpec.describe "The report of plock doctor on a cluster:" do
  a, b, c, d = [["a", "7000"], ["b", "7000"], ["10.0.0.3", "7000"], ["d.example", "7001"]]

  # Each node's answers, by command.
  let(:nodes) { { a => node("id-a"), b => node("id-b"), c => node("id-c"), d => node("id-d") } }
  let(:slots) do
    [[0, 8191, ["a", 7000, "id-a"], ["10.0.0.3", 7000, "id-c", []]],
     [8192, 16_383, ["b", 7000, "id-b"], ["d.example", 7001, "id-d", %w[ip 10.0.0.4]]]]
  end
  let(:finding) { Plock::CLI::Doctor::Nodes.run(cluster) }
  let(:cluster) { Plock::CLI::Doctor::Cluster.new(store) }

  let(:store) do
    instance_double(Plock::Store, primaries: [a, b]).tap do |store|
      allow(store).to receive(:converse) { |place| conversation(nodes.fetch(place)) }
    end
  end

  def node(id)
    user = ["flags", ["on"], "commands", "+@all", "keys", "~*", "channels", "&*"]
    {
      "TIME" => [1, 0], "CLUSTER MYID" => id, "CLUSTER INFO" => "cluster_slots_ok:16384\r\n",
      "INFO replication" => "connected_slaves:1\r\nslave0:ip=10.9.9.9,port=1,state=online\r\n",
      "ACL WHOAMI" => "locks", "ACL GETUSER locks" => user,
      "CONFIG GET cluster-require-full-coverage" => %w[cluster-require-full-coverage no],
      "CONFIG GET cluster-node-timeout" => %w[cluster-node-timeout 15000]
    }
  end

  def conversation(answers)
    instance_double(Plock::Store::Conversation).tap do |one|
      allow(one).to receive(:ask) do |words|
        answer = words == %w[CLUSTER SLOTS] ? slots : answers[words.join(" ")]
        raise answer if Exception === answer

        answer || raise(Plock::PermissionError.new("no permission", code: :noperm))
      end
    end
  end

  def refuse(command) = nodes.each_value { |answers| answers.delete(command) }

  it "is fine if all slots are served, by primaries with replicas" do
    expect(finding).to have_attributes(
      level: :fine, message: /\A2 primaries with replicas\. A replica .* silent for 15\.0 s\./
    )
  end

  it "looks for replicas where the cluster says that they are" do
    expect(cluster.replicas).to eq("a:7000" => [c], "b:7000" => [d])
  end

  it "finds one that tells no host at that of its primary" do
    slots[0] = [0, 100, ["a", 7000, "id-a"], [nil, 7001, "id-x"], ["", 7002, "id-y"]]
    slots << [101, 8191, ["", 7000, "id-a"], ["?", 7003, "id-z"], ["", 7002, "id-y"]]
    expect(cluster.replicas["a:7000"]).to eq([%w[a 7001], %w[a 7002], %w[a 7003]])
  end

  it "names slots that are not served" do
    nodes[a]["CLUSTER INFO"] = "cluster_state:fail\r\ncluster_slots_ok:16383\r\n"
    expect(finding).to have_attributes(
      level: :danger, message: "16383 of 16384 slots are served", remedy: /CLUSTER NODES/
    )
  end

  it "names a primary without a replica" do
    slots[1].pop
    nodes[b]["INFO replication"] = "connected_slaves:0\r\n"
    expect(finding).to have_attributes(
      level: :advice, message: /\Ab:7000: without a replica, its keys are not served/
    )
  end

  it "counts a replica that has received nothing yet, and that the nodes do not name" do
    slots[1].pop
    expect(finding).to have_attributes(level: :fine)
  end

  it "does not guess that there is none if the nodes do not tell" do
    refuse("CLUSTER MYID")
    expect(finding).to have_attributes(
      level: :unknown, message: /\Athe replicas could not be asked/, remedy: /cluster\|myid/
    )
  end

  it "needs no INFO for the replicas" do
    refuse("INFO replication")
    expect(finding).to have_attributes(level: :fine)
  end

  it "says that a replica refuses the credentials only if it does" do
    %i[wrongpass noauth].each do |code|
      nodes[d]["ACL WHOAMI"] = Plock::AuthenticationError.new("the reason", code: code)
      expect(Plock::CLI::Doctor::Nodes.run(cluster)).to have_attributes(
        level: :danger, message: /\Athe replica d\.example:7001 refuses the credentials: /,
        remedy: "give all nodes the same users"
      )
    end
    [Plock::AuthenticationError.new("hostname mismatch", code: :tls_verify),
     Plock::UnavailableError.new("hostname mismatch", code: :silent)].each do |error|
      nodes[d]["ACL WHOAMI"] = error
      expect(Plock::CLI::Doctor::Nodes.run(cluster)).to have_attributes(
        level: :danger, remedy: /certificate/,
        message: /\Athe replica d\.example:7001 cannot be asked \(hostname mismatch\): /
      )
    end
  end

  it "warns of clocks that are apart" do
    now = Plock::Clock.wall
    allow(Plock::Clock).to receive(:wall).and_return(now)
    { a => 0, b => 2.5 }.each do |place, ahead|
      seconds, fraction = (now + ahead).divmod(1)
      nodes[place]["TIME"] = [seconds.to_s, (fraction * 1_000_000).to_i.to_s]
    end
    expect(Plock::CLI::Doctor::NodeClocks.run(cluster)).to have_attributes(
      level: :advice, remedy: /NTP/,
      message: /\Aa:7000 is 2\.5 s behind b:7000: .*fence may be smaller/
    )
  end
end
